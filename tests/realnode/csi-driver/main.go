// Command csi-driver gives pods folders of this machine as the volumes of a CSI driver, without attaching anything: the
// kubelet calls it to mount what a persistent volume names, as it calls the driver of FSx for Lustre.
//
//	csi-driver -name fsx.csi.aws.com -kubelet /var/lib/kubelet -volumes FOLDER -node NAME
//
// Two volumes with one handle are one folder, whatever node they are on.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer

	name, node, volumes, socket string
}

func main() {
	log.SetFlags(0)
	d := &driver{}
	flag.StringVar(&d.name, "name", "fsx.csi.aws.com", "of the driver")
	flag.StringVar(&d.node, "node", "", "name of the node")
	flag.StringVar(&d.volumes, "volumes", "/volumes", "folder with a folder for each volume")
	kubelet := flag.String("kubelet", "/var/lib/kubelet", "folder of the kubelet")
	flag.Parse()

	d.socket = filepath.Join(*kubelet, "plugins", d.name, "csi.sock")
	calls := grpc.NewServer()
	csi.RegisterIdentityServer(calls, d)
	csi.RegisterNodeServer(calls, d)
	go serve(calls, d.socket)

	registered := grpc.NewServer()
	registration.RegisterRegistrationServer(registered, d)
	serve(registered, filepath.Join(*kubelet, "plugins_registry", d.name+"-reg.sock"))
}

// serve answers at a socket. One that a killed driver has left is in the way.
func serve(server *grpc.Server, socket string) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		log.Fatal(err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving at %s", socket)
	log.Fatal(server.Serve(listener))
}

// GetInfo tells the kubelet, which has found our socket, who we are.
func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              d.name,
		Endpoint:          d.socket,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (d *driver) NotifyRegistrationStatus(
	_ context.Context, told *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %t %s", told.PluginRegistered, told.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1.0.0"}, nil
}

func (d *driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

func (d *driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume mounts the volume's folder; a second call for the same pod changes nothing.
func (d *driver) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	handle := request.GetVolumeId()
	if handle == "" || strings.ContainsAny(handle, "/\x00") || handle == ".." {
		return nil, status.Errorf(codes.InvalidArgument, "%q is no volume", handle)
	}
	source, target := filepath.Join(d.volumes, handle), request.GetTargetPath()
	if err := os.MkdirAll(source, 0o777); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if mounted(target) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return nil, status.Errorf(codes.Internal, "mount %s: %v", handle, err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (d *driver) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	target := request.GetTargetPath()
	if mounted(target) {
		if err := syscall.Unmount(target, 0); err != nil {
			return nil, status.Errorf(codes.Internal, "unmount %s: %v", target, err)
		}
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// mounted tells whether a file system is mounted exactly there.
func mounted(path string) bool {
	table, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && strings.Contains(string(table), " "+path+" ")
}
