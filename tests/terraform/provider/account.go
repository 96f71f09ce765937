package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// account is the folder that stands for an AWS account: what exists, what a data source finds, what is to fail.
//
//	objects/TYPE/ID.json  one for each resource: its unique name, and tags that other resources gave it
//	contents/BUCKET       a bucket with this file is not empty
//	data.json             what data sources find
//	faults.json           what fails, each so many times
//	calls.log             every create, update and delete, in order
type account struct {
	folder string
	mutex  sync.Mutex
}

type object struct {
	Unique string            `json:"unique"`
	Tags   map[string]string `json:"tags"`
	State  []byte            `json:"state"` // as an import finds it; MessagePack
}

// finding is an answer of a data source: the first whose texts match counts.
type finding struct {
	Type  string                     `json:"type"`
	Match map[string]string          `json:"match"`
	Set   map[string]json.RawMessage `json:"set"`
}

// fault makes one kind of call fail.
type fault struct {
	Verb    string `json:"verb"` // create, update, delete
	Type    string `json:"type"`
	Message string `json:"message"`
	Times   int    `json:"times"`
	// Leaves says what is there afterwards: "nothing"; "failed", an object that Terraform knows of; "unknown", one that
	// it does not know of.
	Leaves string `json:"leaves"`
}

func openAccount() *account { return &account{folder: os.Getenv("STUB_ACCOUNT")} }

func (a *account) read(name string, into any) {
	text, err := os.ReadFile(filepath.Join(a.folder, name))
	if os.IsNotExist(err) {
		return
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
}

func (a *account) write(name string, value any) {
	path := filepath.Join(a.folder, name)
	text := must(json.Marshal(value))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		panic(err)
	}
	// Renamed into place: another create of the same type reads all files of that type meanwhile.
	made := must(os.CreateTemp(filepath.Dir(path), ".new-*"))
	_, err := made.Write(text)
	if err == nil {
		err = made.Close()
	}
	if err == nil {
		err = os.Rename(made.Name(), path)
	}
	if err != nil {
		panic(err)
	}
}

func objectFile(kind, id string) string {
	return filepath.Join("objects", kind, strings.ReplaceAll(id, "/", "|")+".json")
}

func (a *account) note(verb, kind, id string) {
	file := must(os.OpenFile(filepath.Join(a.folder, "calls.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))
	defer file.Close()
	fmt.Fprintln(file, verb, kind, id)
}

// failing returns the fault of a call and uses it up; nil if the call succeeds.
func (a *account) failing(verb, kind string) *fault {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var faults []fault
	a.read("faults.json", &faults)
	for index := range faults {
		item := &faults[index]
		if item.Verb == verb && item.Type == kind && item.Times > 0 {
			item.Times--
			a.write("faults.json", faults)
			return item
		}
	}
	return nil
}

// taken returns whether an object of the account has the unique name already.
func (a *account) taken(kind, unique string) bool {
	files, _ := filepath.Glob(filepath.Join(a.folder, "objects", kind, "*.json"))
	for _, file := range files {
		found := object{}
		a.read(filepath.Join("objects", kind, filepath.Base(file)), &found)
		if found.Unique == unique {
			return true
		}
	}
	return false
}

func (a *account) exists(kind, id string) bool {
	_, err := os.Stat(filepath.Join(a.folder, objectFile(kind, id)))
	return err == nil
}

func (a *account) put(kind, id, unique string) {
	a.write(objectFile(kind, id), object{Unique: unique, Tags: map[string]string{}})
}

// keep stores the attributes of an object, for an import.
func (a *account) keep(kind, id string, state []byte) {
	if !a.exists(kind, id) {
		return
	}
	found := object{}
	a.read(objectFile(kind, id), &found)
	found.State = state
	a.write(objectFile(kind, id), found)
}

func (a *account) remove(kind, id string) {
	_ = os.Remove(filepath.Join(a.folder, objectFile(kind, id)))
}

// tag gives an object of any type one more tag, or takes it away: the work of aws_ec2_tag.
func (a *account) tag(id, key, value string, isSet bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	files, _ := filepath.Glob(filepath.Join(a.folder, "objects", "*", strings.ReplaceAll(id, "/", "|")+".json"))
	for _, file := range files {
		name := must(filepath.Rel(a.folder, file))
		found := object{}
		a.read(name, &found)
		if isSet {
			found.Tags[key] = value
		} else {
			delete(found.Tags, key)
		}
		a.write(name, found)
	}
}

// foreignTags are the tags that other resources gave an object.
func (a *account) foreignTags(kind, id string) map[string]string {
	found := object{}
	a.read(objectFile(kind, id), &found)
	return found.Tags
}

// retag forgets foreign tags that an update of the object itself has removed.
func (a *account) retag(kind, id string, kept fields) {
	found := object{}
	a.read(objectFile(kind, id), &found)
	for key := range found.Tags {
		if _, ok := kept[key]; !ok {
			delete(found.Tags, key)
		}
	}
	a.write(objectFile(kind, id), found)
}

func (a *account) hasContents(bucket string) bool {
	_, err := os.Stat(filepath.Join(a.folder, "contents", bucket))
	return err == nil
}

func (a *account) empty(bucket string) { _ = os.Remove(filepath.Join(a.folder, "contents", bucket)) }

// found fills in what a data source finds; false if this account has no answer.
func (a *account) found(kind string, values fields) bool {
	var findings []finding
	a.read("data.json", &findings)
	for _, item := range findings {
		if item.Type != kind || !matches(item.Match, values) {
			continue
		}
		for name, raw := range item.Set {
			if _, ok := values[name]; !ok {
				continue // not asked for
			}
			var plain any
			if err := json.Unmarshal(raw, &plain); err != nil {
				panic(err)
			}
			values[name] = valueOf(values[name].Type(), plain)
		}
		return true
	}
	return false
}

// matches compares texts; a filter is matched by "filter.NAME", its values joined with commas.
func matches(wanted map[string]string, values fields) bool {
	for name, text := range wanted {
		if filter, ok := strings.CutPrefix(name, "filter."); ok {
			if filterText(values, filter) != text {
				return false
			}
		} else if values.text(name) != text {
			return false
		}
	}
	return true
}

func filterText(values fields, name string) string {
	var filters []tftypes.Value
	if values["filter"].As(&filters) != nil {
		return ""
	}
	for _, item := range filters {
		found := fieldsOf(item)
		if found.text("name") != name {
			continue
		}
		var texts []tftypes.Value
		_ = found["values"].As(&texts)
		var out []string
		for _, text := range texts {
			out = append(out, fields{"text": text}.text("text"))
		}
		return strings.Join(out, ",")
	}
	return ""
}

func valueOf(kind tftypes.Type, plain any) tftypes.Value {
	switch shape := kind.(type) {
	case tftypes.List:
		return tftypes.NewValue(kind, items(shape.ElementType, plain))
	case tftypes.Set:
		return tftypes.NewValue(kind, items(shape.ElementType, plain))
	case tftypes.Object:
		given, _ := plain.(map[string]any)
		out := map[string]tftypes.Value{}
		for name, inner := range shape.AttributeTypes {
			if value, ok := given[name]; ok {
				out[name] = valueOf(inner, value)
			} else {
				out[name] = invented("", name, inner, constant)
			}
		}
		return tftypes.NewValue(kind, out)
	}
	return tftypes.NewValue(kind, plain)
}

func items(kind tftypes.Type, plain any) []tftypes.Value {
	out := []tftypes.Value{}
	list := reflect.ValueOf(plain)
	for index := range list.Len() {
		out = append(out, valueOf(kind, list.Index(index).Interface()))
	}
	return out
}
