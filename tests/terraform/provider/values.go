package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

type fields map[string]tftypes.Value

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func packed(value tftypes.Value) *tfprotov5.DynamicValue {
	made := must(tfprotov5.NewDynamicValue(value.Type(), value))
	return &made
}

func unpacked(kind tftypes.Type, value *tfprotov5.DynamicValue) tftypes.Value {
	if value == nil {
		return tftypes.NewValue(kind, nil)
	}
	return must(value.Unmarshal(kind))
}

func fieldsOf(value tftypes.Value) fields {
	out := map[string]tftypes.Value{}
	if value.IsKnown() && !value.IsNull() {
		if err := value.As(&out); err != nil {
			panic(err)
		}
	}
	return out
}

// text is the value of a string attribute; empty if it is null, unknown or missing.
func (f fields) text(name string) string {
	out := ""
	if value, ok := f[name]; ok && value.IsKnown() && !value.IsNull() && value.Type().Is(tftypes.String) {
		_ = value.As(&out)
	}
	return out
}

func (f fields) truth(name string) bool {
	out := false
	if value, ok := f[name]; ok && value.IsKnown() && !value.IsNull() {
		_ = value.As(&out)
	}
	return out
}

func (f fields) number(name string) int64 {
	out := big.NewFloat(0)
	if value, ok := f[name]; ok && value.IsKnown() && !value.IsNull() {
		_ = value.As(&out)
	}
	whole, _ := out.Int64()
	return whole
}

func (f fields) setText(name, value string) {
	if _, ok := f[name]; ok {
		f[name] = tftypes.NewValue(tftypes.String, value)
	}
}

func (f fields) setNumber(name string, value int64) {
	if _, ok := f[name]; ok {
		f[name] = tftypes.NewValue(tftypes.Number, big.NewFloat(float64(value)))
	}
}

// tags are the known entries of a map of strings.
func (f fields) tags(name string) fields {
	if value, ok := f[name]; ok {
		return fieldsOf(value)
	}
	return fields{}
}

// unknownWhereComputed is what a plan shows of values that the service will choose.
func unknownWhereComputed(b block, value tftypes.Value) tftypes.Value {
	if value.IsNull() || !value.IsKnown() {
		return value
	}
	found := fieldsOf(value)
	for name, a := range b.Attributes {
		if a.Computed && found[name].IsNull() {
			found[name] = tftypes.NewValue(found[name].Type(), tftypes.UnknownValue)
		}
	}
	for name, nested := range b.Blocks {
		found[name] = mapped(found[name], func(item tftypes.Value) tftypes.Value {
			return unknownWhereComputed(nested.Block, item)
		})
	}
	return tftypes.NewValue(value.Type(), map[string]tftypes.Value(found))
}

// chosen replaces what a plan left unknown by values that the service could have chosen. Values of an object that is
// made differ each time; those of a data source, which is read again and again, do not.
func chosen(kind, path string, value tftypes.Value, unique func() string) tftypes.Value {
	if !value.IsKnown() {
		return invented(kind, path, value.Type(), unique)
	}
	if value.IsNull() {
		return value
	}
	switch value.Type().(type) {
	case tftypes.Object, tftypes.Map:
		found := fieldsOf(value)
		for name := range found {
			found[name] = chosen(kind, name, found[name], unique)
		}
		return tftypes.NewValue(value.Type(), map[string]tftypes.Value(found))
	case tftypes.List, tftypes.Set:
		return mapped(value, func(item tftypes.Value) tftypes.Value { return chosen(kind, path, item, unique) })
	}
	return value
}

func mapped(value tftypes.Value, change func(tftypes.Value) tftypes.Value) tftypes.Value {
	if value.IsNull() || !value.IsKnown() {
		return value
	}
	if _, single := value.Type().(tftypes.Object); single {
		return change(value)
	}
	var items []tftypes.Value
	if err := value.As(&items); err != nil {
		panic(err)
	}
	out := make([]tftypes.Value, len(items))
	for index, item := range items {
		out[index] = change(item)
	}
	return tftypes.NewValue(value.Type(), out)
}

func invented(kind, name string, wanted tftypes.Type, unique func() string) tftypes.Value {
	switch shape := wanted.(type) {
	case tftypes.List:
		return tftypes.NewValue(wanted, []tftypes.Value{invented(kind, name, shape.ElementType, unique)})
	case tftypes.Set:
		return tftypes.NewValue(wanted, []tftypes.Value{invented(kind, name, shape.ElementType, unique)})
	case tftypes.Map:
		return tftypes.NewValue(wanted, map[string]tftypes.Value{})
	case tftypes.Object:
		out := map[string]tftypes.Value{}
		for inner, innerType := range shape.AttributeTypes {
			out[inner] = invented(kind, inner, innerType, unique)
		}
		return tftypes.NewValue(wanted, out)
	}
	switch {
	case wanted.Is(tftypes.Bool):
		return tftypes.NewValue(wanted, false)
	case wanted.Is(tftypes.Number):
		return tftypes.NewValue(wanted, big.NewFloat(1))
	}
	return tftypes.NewValue(tftypes.String, inventedText(kind, name, unique()))
}

func inventedText(kind, name, suffix string) string {
	switch {
	case name == "id":
		return strings.ReplaceAll(strings.TrimPrefix(kind, "aws_"), "_", "-") + "-" + suffix
	case strings.HasSuffix(name, "arn"):
		return "arn:aws:stub:us-west-2:111122223333:" + suffix
	case strings.HasSuffix(name, "cidr"), strings.HasSuffix(name, "cidr_block"):
		return "172.20.0.0/16"
	case name == "data", strings.Contains(name, "certificate"):
		return "Q0E="
	case name == "endpoint", name == "issuer", name == "url":
		return "https://127.0.0.1:1"
	case strings.Contains(name, "json"), name == "policy":
		return "{}"
	case name == "rendered":
		return "cmVuZGVyZWQ="
	}
	return fmt.Sprintf("%s-%s", strings.ReplaceAll(name, "_", "-"), suffix)
}

func constant() string { return "stub" }

func suffix() string {
	data := make([]byte, 6)
	_, _ = rand.Read(data)
	return hex.EncodeToString(data)
}
