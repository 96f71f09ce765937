package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const registration = 5 * time.Second

// resource is what a node has of one extended resource.
type resource struct {
	Count     int   `json:"count"`
	Unhealthy []int `json:"unhealthy"` // by index
	// ID names a device by its index, "GPU-7f3b1c52-0000-4000-8000-%012d". Without it the index itself is the name, as
	// for Neuron cores.
	ID string `json:"id"`
	// Env is the variable in which a container finds the names of its devices, comma-separated: NVIDIA_VISIBLE_DEVICES,
	// AWS_NEURON_VISIBLE_DEVICES, NEURON_RT_VISIBLE_CORES. EFA's plugin sets none.
	Env string `json:"env"`
	// Mounts has host path → path in the container, both absolute, mounted read-only.
	Mounts map[string]string `json:"mounts"`
}

// parse refuses what could not be served.
func parse(text []byte) (map[string]resource, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var declared map[string]resource
	if err := decoder.Decode(&declared); err != nil {
		return nil, err
	}
	for name, resource := range declared {
		if resource.Count < 0 {
			return nil, fmt.Errorf("%s: count is %d", name, resource.Count)
		}
		for _, index := range resource.Unhealthy {
			if index < 0 || index >= resource.Count {
				return nil, fmt.Errorf("%s: there is no device %d", name, index)
			}
		}
		if ids := resource.ids(); len(ids) > 0 && strings.Contains(ids[0], "%!") { // as Sprintf complains
			return nil, fmt.Errorf("%s: id %q has no place for an index", name, resource.ID)
		}
	}
	return declared, nil
}

// ids has the names of all devices, by index.
func (r resource) ids() []string {
	format := r.ID
	if format == "" {
		format = "%d"
	}
	var ids []string
	for index := range r.Count {
		ids = append(ids, fmt.Sprintf(format, index))
	}
	return ids
}

func (r resource) devices() []*api.Device {
	var devices []*api.Device
	for index, id := range r.ids() {
		health := api.Healthy
		if slices.Contains(r.Unhealthy, index) {
			health = api.Unhealthy
		}
		devices = append(devices, &api.Device{ID: id, Health: health})
	}
	return devices
}

// among has those names that are in `wanted`, by index.
func (r resource) among(wanted []string) []string {
	return slices.DeleteFunc(r.ids(), func(id string) bool { return !slices.Contains(wanted, id) })
}

// plugin serves one resource.
type plugin struct {
	api.UnimplementedDevicePluginServer
	name   string
	server *grpc.Server

	mutex   sync.Mutex
	has     resource
	changed chan struct{} // closed when `has` is another
}

// start serves a resource on a socket of its own, and registers it with the kubelet.
func start(folder, name string, has resource) (*plugin, error) {
	p := &plugin{name: name, server: grpc.NewServer(), has: has, changed: make(chan struct{})}
	endpoint := strings.ReplaceAll(name, "/", "-") + ".sock"
	path := filepath.Join(folder, endpoint)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	api.RegisterDevicePluginServer(p.server, p)
	go p.server.Serve(listener)
	if err := p.register(filepath.Join(folder, kubeletSocket), endpoint); err != nil {
		p.server.Stop() // which removes the socket
		return nil, err
	}
	return p, nil
}

func (p *plugin) register(kubelet, endpoint string) error {
	connection, err := grpc.NewClient("unix:"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), registration)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version:      api.Version,
		Endpoint:     endpoint,
		ResourceName: p.name,
		Options:      &api.DevicePluginOptions{GetPreferredAllocationAvailable: true},
	})
	return err
}

func (p *plugin) update(has resource) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if reflect.DeepEqual(p.has, has) {
		return
	}
	log.Printf("%s: %d devices, unhealthy: %v", p.name, has.Count, has.Unhealthy)
	p.has = has
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *plugin) now() (resource, <-chan struct{}) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.has, p.changed
}

// GetDevicePluginOptions says the same as the registration.
func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

// ListAndWatch sends all devices, and again whenever something about them has changed.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for {
		has, changed := p.now()
		if err := stream.Send(&api.ListAndWatchResponse{Devices: has.devices()}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// GetPreferredAllocation prefers the lowest indices, so that what a pod gets is known beforehand.
func (p *plugin) GetPreferredAllocation(_ context.Context, request *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	has, _ := p.now()
	response := &api.PreferredAllocationResponse{}
	for _, container := range request.ContainerRequests {
		chosen := slices.Clone(container.MustIncludeDeviceIDs)
		for _, id := range has.among(container.AvailableDeviceIDs) {
			if len(chosen) < int(container.AllocationSize) && !slices.Contains(chosen, id) {
				chosen = append(chosen, id)
			}
		}
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return response, nil
}

// Allocate tells each container of its devices.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	has, _ := p.now()
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		ids := has.among(container.DevicesIds)
		if len(ids) != len(container.DevicesIds) {
			return nil, fmt.Errorf("%s has not all of the devices %v", p.name, container.DevicesIds)
		}
		log.Printf("%s: allocated %s", p.name, strings.Join(ids, ","))
		response.ContainerResponses = append(response.ContainerResponses, has.allocated(ids))
	}
	return response, nil
}

func (r resource) allocated(ids []string) *api.ContainerAllocateResponse {
	response := &api.ContainerAllocateResponse{}
	if r.Env != "" {
		response.Envs = map[string]string{r.Env: strings.Join(ids, ",")}
	}
	for host, path := range r.Mounts {
		response.Mounts = append(response.Mounts, &api.Mount{HostPath: host, ContainerPath: path, ReadOnly: true})
	}
	return response
}
