// Command device-plugin tells a kubelet of devices that a file declares, as the device plugins of NVIDIA, EFA and Neuron
// tell it of those that a machine has.
//
//	device-plugin -socket-dir DIR -state FILE.json
//
// DIR is where the kubelet's own socket lies, kubelet.sock. FILE may not lie there: a kubelet that starts empties DIR. Its
// content is an object, resource name → what there is of it (see resource). It is read again whenever it changes, and
// should be replaced by a rename; while it is damaged, what it said before holds.
package main

import (
	"bytes"
	"flag"
	"log"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	kubeletSocket = "kubelet.sock"
	look          = 200 * time.Millisecond
)

func main() {
	log.SetFlags(log.Lmicroseconds)
	folder := flag.String("socket-dir", "", "folder of the kubelet's socket")
	state := flag.String("state", "", "file that declares the devices")
	flag.Parse()
	if *folder == "" || *state == "" {
		log.Fatal("-socket-dir and -state are needed")
	}
	text, err := os.ReadFile(*state)
	if err != nil {
		log.Fatal(err)
	}
	declared, err := parse(text)
	if err != nil {
		log.Fatalf("%s: %v", *state, err)
	}
	node := &node{folder: *folder, plugins: map[string]*plugin{}}
	for {
		node.serve(declared)
		time.Sleep(look)
		now, err := os.ReadFile(*state)
		if err != nil || bytes.Equal(now, text) {
			continue
		}
		text = now
		if changed, err := parse(text); err != nil {
			log.Printf("%s: %v; what it said before holds", *state, err)
		} else {
			declared = changed
		}
	}
}

// node has one plugin for each resource, as long as the kubelet is the same one.
type node struct {
	folder  string
	kubelet socketID
	plugins map[string]*plugin
}

// serve brings the plugins in line with what is declared. What fails is tried again the next time.
func (n *node) serve(declared map[string]resource) {
	kubelet := idOf(filepath.Join(n.folder, kubeletSocket))
	if kubelet != n.kubelet { // it has removed our sockets with all others, and forgotten who had registered
		for name := range n.plugins {
			n.stop(name)
		}
		n.kubelet = kubelet
	}
	if kubelet == (socketID{}) {
		return
	}
	for name := range n.plugins {
		if _, stays := declared[name]; !stays {
			n.stop(name)
		}
	}
	for name, resource := range declared {
		if running := n.plugins[name]; running != nil {
			running.update(resource)
			continue
		}
		started, err := start(n.folder, name, resource)
		if err != nil {
			log.Printf("%s: not registered: %v", name, err)
			continue
		}
		log.Printf("%s: registered, %d devices", name, len(resource.devices()))
		n.plugins[name] = started
	}
}

func (n *node) stop(name string) {
	n.plugins[name].server.Stop()
	delete(n.plugins, name)
	log.Printf("%s: no longer served", name)
}

// socketID tells one socket from another that has taken its name. Its zero value is no socket.
type socketID struct {
	inode   uint64
	created syscall.Timespec
}

func idOf(path string) socketID {
	var found syscall.Stat_t
	if syscall.Stat(path, &found) != nil {
		return socketID{}
	}
	return socketID{found.Ino, found.Ctim}
}
