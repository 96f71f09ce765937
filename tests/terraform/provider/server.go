package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

var errUnsupported = errors.New("the stub provider does not do this")

// server answers for one provider: its schemas are the real ones, what it makes is a file in the account's folder.
type server struct {
	schema      providerSchema
	behaviour   map[string]behaviour
	account     *account
	defaultTags fields
	types       sync.Map // by resource type
}

// typeOf is the type of a resource's values, made once: Terraform asks several times for each resource.
func (s *server) typeOf(name string) tftypes.Object {
	if known, ok := s.types.Load(name); ok {
		return known.(tftypes.Object)
	}
	made := protocolBlock(s.schema.Resources[name]).ValueType().(tftypes.Object)
	s.types.Store(name, made)
	return made
}

func objectType(b block) tftypes.Object { return protocolBlock(b).ValueType().(tftypes.Object) }

func failed(format string, arguments ...any) []*tfprotov5.Diagnostic {
	return []*tfprotov5.Diagnostic{{Severity: tfprotov5.DiagnosticSeverityError, Summary: fmt.Sprintf(format, arguments...)}}
}

func (s *server) GetMetadata(context.Context, *tfprotov5.GetMetadataRequest) (*tfprotov5.GetMetadataResponse, error) {
	answer := &tfprotov5.GetMetadataResponse{ServerCapabilities: &tfprotov5.ServerCapabilities{}}
	for name := range s.schema.Resources {
		answer.Resources = append(answer.Resources, tfprotov5.ResourceMetadata{TypeName: name})
	}
	for name := range s.schema.Data {
		answer.DataSources = append(answer.DataSources, tfprotov5.DataSourceMetadata{TypeName: name})
	}
	return answer, nil
}

func (s *server) GetProviderSchema(context.Context, *tfprotov5.GetProviderSchemaRequest) (*tfprotov5.GetProviderSchemaResponse, error) {
	answer := &tfprotov5.GetProviderSchemaResponse{
		Provider:          &tfprotov5.Schema{Block: protocolBlock(s.schema.Provider)},
		ResourceSchemas:   map[string]*tfprotov5.Schema{},
		DataSourceSchemas: map[string]*tfprotov5.Schema{},
	}
	for name, b := range s.schema.Resources {
		answer.ResourceSchemas[name] = &tfprotov5.Schema{Block: protocolBlock(b)}
	}
	for name, b := range s.schema.Data {
		answer.DataSourceSchemas[name] = &tfprotov5.Schema{Block: protocolBlock(b)}
	}
	return answer, nil
}

func (s *server) PrepareProviderConfig(_ context.Context, request *tfprotov5.PrepareProviderConfigRequest) (*tfprotov5.PrepareProviderConfigResponse, error) {
	return &tfprotov5.PrepareProviderConfigResponse{PreparedConfig: request.Config}, nil
}

// ConfigureProvider keeps the tags that every resource gets, and refuses an account that is not allowed.
func (s *server) ConfigureProvider(_ context.Context, request *tfprotov5.ConfigureProviderRequest) (*tfprotov5.ConfigureProviderResponse, error) {
	config := fieldsOf(unpacked(objectType(s.schema.Provider), request.Config))
	if value, ok := config["default_tags"]; ok {
		mapped(value, func(item tftypes.Value) tftypes.Value {
			s.defaultTags = fieldsOf(item).tags("tags")
			return item
		})
	}
	caller := fields{"account_id": tftypes.NewValue(tftypes.String, nil)}
	allowed := []string{}
	if value, ok := config["allowed_account_ids"]; ok {
		mapped(value, func(item tftypes.Value) tftypes.Value {
			allowed = append(allowed, fields{"id": item}.text("id"))
			return item
		})
	}
	if len(allowed) > 0 && s.account.found("aws_caller_identity", caller) {
		id := caller.text("account_id")
		if !strings.Contains(strings.Join(allowed, ","), id) {
			return &tfprotov5.ConfigureProviderResponse{Diagnostics: failed("AWS account ID not allowed: %s", id)}, nil
		}
	}
	return &tfprotov5.ConfigureProviderResponse{}, nil
}

func (s *server) StopProvider(context.Context, *tfprotov5.StopProviderRequest) (*tfprotov5.StopProviderResponse, error) {
	return &tfprotov5.StopProviderResponse{}, nil
}

func (s *server) ValidateResourceTypeConfig(_ context.Context, request *tfprotov5.ValidateResourceTypeConfigRequest) (*tfprotov5.ValidateResourceTypeConfigResponse, error) {
	answer := &tfprotov5.ValidateResourceTypeConfigResponse{}
	config := fieldsOf(unpacked(s.typeOf(request.TypeName), request.Config))
	for name, longest := range s.behaviour[request.TypeName].Lengths {
		if text := config.text(name); len(text) > longest {
			answer.Diagnostics = append(answer.Diagnostics,
				failed("expected length of %s to be in the range (1 - %d), got %s", name, longest, text)...)
		}
	}
	return answer, nil
}

func (s *server) UpgradeResourceState(_ context.Context, request *tfprotov5.UpgradeResourceStateRequest) (*tfprotov5.UpgradeResourceStateResponse, error) {
	options := tfprotov5.UnmarshalOpts{ValueFromJSONOpts: tftypes.ValueFromJSONOpts{IgnoreUndefinedAttributes: true}}
	value, err := request.RawState.UnmarshalWithOpts(s.typeOf(request.TypeName), options)
	if err != nil {
		return nil, err
	}
	return &tfprotov5.UpgradeResourceStateResponse{UpgradedState: packed(value)}, nil
}

// ReadResource finds the object as it is: gone, or with the tags that other resources gave it.
func (s *server) ReadResource(_ context.Context, request *tfprotov5.ReadResourceRequest) (*tfprotov5.ReadResourceResponse, error) {
	value := unpacked(s.typeOf(request.TypeName), request.CurrentState)
	found := fieldsOf(value)
	id := found.text("id")
	if s.account.folder != "" && !s.account.exists(request.TypeName, id) {
		return &tfprotov5.ReadResourceResponse{NewState: packed(tftypes.NewValue(value.Type(), nil))}, nil
	}
	for key, text := range s.account.foreignTags(request.TypeName, id) {
		for _, name := range []string{"tags", "tags_all"} {
			tags := found.tags(name)
			tags[key] = tftypes.NewValue(tftypes.String, text)
			found[name] = tftypes.NewValue(found[name].Type(), map[string]tftypes.Value(tags))
		}
	}
	return &tfprotov5.ReadResourceResponse{
		NewState: packed(tftypes.NewValue(value.Type(), map[string]tftypes.Value(found))), Private: request.Private,
	}, nil
}

func (s *server) PlanResourceChange(_ context.Context, request *tfprotov5.PlanResourceChangeRequest) (*tfprotov5.PlanResourceChangeResponse, error) {
	b := s.schema.Resources[request.TypeName]
	kind := s.typeOf(request.TypeName)
	proposed, prior := unpacked(kind, request.ProposedNewState), unpacked(kind, request.PriorState)
	answer := &tfprotov5.PlanResourceChangeResponse{PlannedState: request.ProposedNewState, UnsafeToUseLegacyTypeSystem: true}
	if proposed.IsNull() {
		return answer, nil
	}
	if prior.IsNull() {
		proposed = unknownWhereComputed(b, proposed)
	}
	planned := fieldsOf(proposed)
	s.planTags(planned)
	if !prior.IsNull() {
		before := fieldsOf(prior)
		for _, name := range s.behaviour[request.TypeName].ForceNew {
			if !before[name].Equal(planned[name]) {
				path := tftypes.NewAttributePath().WithAttributeName(name)
				answer.RequiresReplace = append(answer.RequiresReplace, path)
			}
		}
		if !tftypes.NewValue(kind, map[string]tftypes.Value(planned)).Equal(prior) {
			for _, name := range s.behaviour[request.TypeName].Counters {
				planned[name] = tftypes.NewValue(tftypes.Number, tftypes.UnknownValue)
			}
		}
	}
	answer.PlannedState = packed(tftypes.NewValue(kind, map[string]tftypes.Value(planned)))
	return answer, nil
}

// planTags adds the provider's default tags, as the real one does.
func (s *server) planTags(planned fields) {
	own, ok := planned["tags"]
	all, has := planned["tags_all"]
	if !ok || !has {
		return
	}
	if !own.IsKnown() {
		planned["tags_all"] = tftypes.NewValue(all.Type(), tftypes.UnknownValue)
		return
	}
	merged := fields{}
	for _, tags := range []fields{s.defaultTags, fieldsOf(own)} {
		for key, value := range tags {
			merged[key] = value
		}
	}
	planned["tags_all"] = tftypes.NewValue(all.Type(), map[string]tftypes.Value(merged))
}

func (s *server) ApplyResourceChange(_ context.Context, request *tfprotov5.ApplyResourceChangeRequest) (*tfprotov5.ApplyResourceChangeResponse, error) {
	kind := s.typeOf(request.TypeName)
	planned, prior := unpacked(kind, request.PlannedState), unpacked(kind, request.PriorState)
	switch {
	case planned.IsNull():
		return s.delete(request, fieldsOf(prior)), nil
	case prior.IsNull():
		return s.create(request, planned), nil
	}
	return s.update(request, planned, fieldsOf(prior)), nil
}

func (s *server) create(request *tfprotov5.ApplyResourceChangeRequest, planned tftypes.Value) *tfprotov5.ApplyResourceChangeResponse {
	kind, rules := request.TypeName, s.behaviour[request.TypeName]
	made := fieldsOf(planned)
	nameAfterPrefix(made)
	for _, name := range rules.Counters {
		made[name] = tftypes.NewValue(tftypes.Number, big.NewFloat(1))
	}
	for name := range made {
		made[name] = chosen(kind, name, made[name], suffix)
	}
	if rules.ID != "" {
		made.setText("id", composed(rules.ID, made))
	}
	id, unique := made.text("id"), composed(strings.Join(rules.Unique, "|"), made)
	answer := &tfprotov5.ApplyResourceChangeResponse{UnsafeToUseLegacyTypeSystem: true, NewState: request.PriorState}
	if rules.Exists != "" && s.account.taken(kind, unique) {
		answer.Diagnostics = failed("creating %s (%s): %s", kind, unique, rules.Exists)
		return answer
	}
	s.account.note("create", kind, id)
	fault := s.account.failing("create", kind)
	if fault != nil {
		answer.Diagnostics = failed("creating %s (%s): %s", kind, id, fault.Message)
	}
	if fault == nil || fault.Leaves != "nothing" {
		s.account.put(kind, id, unique)
	}
	if fault == nil || fault.Leaves == "failed" {
		answer.NewState = packed(tftypes.NewValue(planned.Type(), map[string]tftypes.Value(made)))
		s.account.keep(kind, id, answer.NewState.MsgPack)
	}
	if kind == "aws_ec2_tag" {
		s.account.tag(made.text("resource_id"), made.text("key"), made.text("value"), true)
	}
	return answer
}

func (s *server) update(request *tfprotov5.ApplyResourceChangeRequest, planned tftypes.Value, prior fields) *tfprotov5.ApplyResourceChangeResponse {
	kind, id := request.TypeName, prior.text("id")
	answer := &tfprotov5.ApplyResourceChangeResponse{UnsafeToUseLegacyTypeSystem: true, NewState: request.PriorState}
	s.account.note("update", kind, id)
	if fault := s.account.failing("update", kind); fault != nil {
		answer.Diagnostics = failed("updating %s (%s): %s", kind, id, fault.Message)
		return answer
	}
	made := fieldsOf(planned)
	for _, name := range s.behaviour[kind].Counters {
		if !made[name].IsKnown() {
			made.setNumber(name, prior.number(name)+1)
		}
	}
	for name := range made {
		made[name] = chosen(kind, name, made[name], suffix)
	}
	s.account.retag(kind, id, made.tags("tags"))
	answer.NewState = packed(tftypes.NewValue(planned.Type(), map[string]tftypes.Value(made)))
	return answer
}

func (s *server) delete(request *tfprotov5.ApplyResourceChangeRequest, prior fields) *tfprotov5.ApplyResourceChangeResponse {
	kind, id := request.TypeName, prior.text("id")
	answer := &tfprotov5.ApplyResourceChangeResponse{UnsafeToUseLegacyTypeSystem: true, NewState: request.PriorState}
	s.account.note("delete", kind, id)
	if fault := s.account.failing("delete", kind); fault != nil {
		answer.Diagnostics = failed("deleting %s (%s): %s", kind, id, fault.Message)
		return answer
	}
	if kind == "aws_s3_bucket" && s.account.hasContents(id) {
		if !prior.truth("force_destroy") { // the state counts, not the configuration
			answer.Diagnostics = failed("deleting S3 Bucket (%s): BucketNotEmpty: The bucket you tried to delete is not empty", id)
			return answer
		}
		s.account.empty(id)
	}
	if kind == "aws_ec2_tag" {
		s.account.tag(prior.text("resource_id"), prior.text("key"), "", false)
	}
	s.account.remove(kind, id)
	answer.NewState = request.PlannedState
	return answer
}

// nameAfterPrefix makes a name of each prefix, as the provider does.
func nameAfterPrefix(made fields) {
	for name := range made {
		prefix := made.text(name + "_prefix")
		if prefix != "" && !made[name].IsKnown() {
			made.setText(name, prefix+suffix())
		}
	}
}

// composed is the text of attributes with the separator that stands between their names: ":", ",", "/" or "|".
func composed(pattern string, made fields) string {
	for _, separator := range []string{":", ",", "/", "|"} {
		if strings.Contains(pattern, separator) {
			parts := strings.Split(pattern, separator)
			for index, name := range parts {
				parts[index] = made.text(name)
			}
			return strings.Join(parts, separator)
		}
	}
	return made.text(pattern)
}

// ImportResourceState finds an object by its id, with the attributes that it was made with.
func (s *server) ImportResourceState(_ context.Context, request *tfprotov5.ImportResourceStateRequest) (*tfprotov5.ImportResourceStateResponse, error) {
	found := object{}
	s.account.read(objectFile(request.TypeName, request.ID), &found)
	if len(found.State) == 0 {
		return &tfprotov5.ImportResourceStateResponse{
			Diagnostics: failed("importing %s (%s): couldn't find resource", request.TypeName, request.ID),
		}, nil
	}
	imported := &tfprotov5.ImportedResource{TypeName: request.TypeName, State: &tfprotov5.DynamicValue{MsgPack: found.State}}
	return &tfprotov5.ImportResourceStateResponse{ImportedResources: []*tfprotov5.ImportedResource{imported}}, nil
}

func (s *server) MoveResourceState(context.Context, *tfprotov5.MoveResourceStateRequest) (*tfprotov5.MoveResourceStateResponse, error) {
	return nil, errUnsupported
}

func (s *server) ValidateDataSourceConfig(context.Context, *tfprotov5.ValidateDataSourceConfigRequest) (*tfprotov5.ValidateDataSourceConfigResponse, error) {
	return &tfprotov5.ValidateDataSourceConfigResponse{}, nil
}

func (s *server) ReadDataSource(_ context.Context, request *tfprotov5.ReadDataSourceRequest) (*tfprotov5.ReadDataSourceResponse, error) {
	b := s.schema.Data[request.TypeName]
	value := unknownWhereComputed(b, unpacked(objectType(b), request.Config))
	found := fieldsOf(value)
	s.account.found(request.TypeName, found)
	for name := range found {
		found[name] = chosen(request.TypeName, name, found[name], constant)
	}
	return &tfprotov5.ReadDataSourceResponse{
		State: packed(tftypes.NewValue(value.Type(), map[string]tftypes.Value(found))),
	}, nil
}

func (s *server) CallFunction(context.Context, *tfprotov5.CallFunctionRequest) (*tfprotov5.CallFunctionResponse, error) {
	return nil, errUnsupported
}

func (s *server) GetFunctions(context.Context, *tfprotov5.GetFunctionsRequest) (*tfprotov5.GetFunctionsResponse, error) {
	return &tfprotov5.GetFunctionsResponse{}, nil
}

func (s *server) ValidateEphemeralResourceConfig(context.Context, *tfprotov5.ValidateEphemeralResourceConfigRequest) (*tfprotov5.ValidateEphemeralResourceConfigResponse, error) {
	return nil, errUnsupported
}

func (s *server) OpenEphemeralResource(context.Context, *tfprotov5.OpenEphemeralResourceRequest) (*tfprotov5.OpenEphemeralResourceResponse, error) {
	return nil, errUnsupported
}

func (s *server) RenewEphemeralResource(context.Context, *tfprotov5.RenewEphemeralResourceRequest) (*tfprotov5.RenewEphemeralResourceResponse, error) {
	return nil, errUnsupported
}

func (s *server) CloseEphemeralResource(context.Context, *tfprotov5.CloseEphemeralResourceRequest) (*tfprotov5.CloseEphemeralResourceResponse, error) {
	return nil, errUnsupported
}
