package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

//go:embed schemas.json.gz
var packedSchemas []byte

//go:embed behaviour.json
var packedBehaviour []byte

// attribute is one attribute of a block, as the provider's schema declares it.
type attribute struct {
	Type     json.RawMessage `json:"type"`
	Optional bool            `json:"optional"`
	Required bool            `json:"required"`
	Computed bool            `json:"computed"`
}

type nestedBlock struct {
	Mode  string `json:"nesting_mode"`
	Block block  `json:"block"`
	Min   int64  `json:"min_items"`
	Max   int64  `json:"max_items"`
}

type block struct {
	Attributes map[string]attribute   `json:"attributes"`
	Blocks     map[string]nestedBlock `json:"block_types"`
}

type providerSchema struct {
	Provider  block            `json:"provider"`
	Resources map[string]block `json:"resources"`
	Data      map[string]block `json:"data"`
}

// behaviour is what no schema holds: which attributes replace a resource, which names are taken once.
type behaviour struct {
	ID       string         `json:"id"`        // attributes that make the id, with their separator
	ForceNew []string       `json:"force_new"` // attributes whose change replaces the resource
	Unique   []string       `json:"unique"`    // attributes that no two resources of an account share
	Exists   string         `json:"exists"`    // what the service answers if they do
	Lengths  map[string]int `json:"lengths"`   // longest values that the provider accepts
	Counters []string       `json:"counters"`  // attributes that grow by one with each change
}

func loadSchemas() map[string]providerSchema {
	reader, err := gzip.NewReader(bytes.NewReader(packedSchemas))
	if err != nil {
		panic(err)
	}
	all := map[string]providerSchema{}
	if err := json.NewDecoder(reader).Decode(&all); err != nil {
		panic(err)
	}
	return all
}

func loadBehaviour() map[string]behaviour {
	all := map[string]behaviour{}
	if err := json.Unmarshal(packedBehaviour, &all); err != nil {
		panic(err)
	}
	return all
}

func protocolBlock(b block) *tfprotov5.SchemaBlock {
	out := &tfprotov5.SchemaBlock{}
	for name, a := range b.Attributes {
		kind, err := tftypes.ParseJSONType(a.Type) //nolint:staticcheck // the form in which schemas are printed
		if err != nil {
			panic(fmt.Sprintf("%s: %v", name, err))
		}
		out.Attributes = append(out.Attributes, &tfprotov5.SchemaAttribute{
			Name: name, Type: kind, Optional: a.Optional, Required: a.Required, Computed: a.Computed,
		})
	}
	for name, nested := range b.Blocks {
		out.BlockTypes = append(out.BlockTypes, &tfprotov5.SchemaNestedBlock{
			TypeName: name, Nesting: nesting(nested.Mode), MinItems: nested.Min, MaxItems: nested.Max,
			Block: protocolBlock(nested.Block),
		})
	}
	return out
}

func nesting(mode string) tfprotov5.SchemaNestedBlockNestingMode {
	switch mode {
	case "list":
		return tfprotov5.SchemaNestedBlockNestingModeList
	case "set":
		return tfprotov5.SchemaNestedBlockNestingModeSet
	}
	return tfprotov5.SchemaNestedBlockNestingModeSingle
}
