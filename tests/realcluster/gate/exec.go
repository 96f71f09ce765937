package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	constants "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	serving "k8s.io/kubelet/pkg/cri/streaming/remotecommand"
	"k8s.io/utils/exec"
)

// Channels of a frame, as in the remote-command protocol of Kubernetes. A frame is a channel (one byte), a length (four
// bytes, big endian) and so many bytes.
const (
	stdin  = 0
	stdout = 1
	stderr = 2
	status = 3
	resize = 4
	closed = 255
)

const (
	idle     = 4 * time.Hour
	creation = 30 * time.Second
)

// executor runs commands in containers, by asking at a socket.
type executor struct{ socket string }

// opening is the first line that is sent.
type opening struct {
	Namespace string   `json:"namespace"`
	Pod       string   `json:"pod"`
	Container string   `json:"container"`
	Argv      []string `json:"argv"` // null: attach to what runs
	TTY       bool     `json:"tty"`
}

// serve answers /exec/NAMESPACE/POD[/UID]/CONTAINER, or the same of attach, with the kubelet's own streaming server.
func (e executor) serve(writer http.ResponseWriter, request *http.Request, target []string) {
	options, err := serving.NewOptions(request)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	verb, name, container := target[0], strings.Join(target[1:3], "/"), target[len(target)-1]
	if verb == "attach" {
		serving.ServeAttach(writer, request, e, name, "", container, options, idle, creation, constants.SupportedStreamingProtocols)
		return
	}
	command := request.URL.Query()["command"]
	serving.ServeExec(writer, request, e, name, "", container, command, options, idle, creation, constants.SupportedStreamingProtocols)
}

// AttachContainer carries what a container prints from now on.
func (e executor) AttachContainer(ctx context.Context, name string, uid types.UID, container string,
	in io.Reader, out, errs io.WriteCloser, tty bool, sizes <-chan remotecommand.TerminalSize) error {
	return e.ExecInContainer(ctx, name, uid, container, nil, in, out, errs, tty, sizes, 0)
}

// ExecInContainer carries a session to the socket and back.
func (e executor) ExecInContainer(ctx context.Context, name string, _ types.UID, container string, argv []string,
	in io.Reader, out, errs io.WriteCloser, tty bool, sizes <-chan remotecommand.TerminalSize, _ time.Duration) error {
	connection, err := net.Dial("unix", e.socket)
	if err != nil {
		return err
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { connection.Close() })()
	namespace, pod, _ := strings.Cut(name, "/")
	line, err := json.Marshal(opening{namespace, pod, container, argv, tty})
	if err != nil {
		return err
	}
	if _, err := connection.Write(append(line, '\n')); err != nil {
		return err
	}
	frames := make(chan []byte)
	done := make(chan struct{})
	defer close(done)
	go write(connection, frames, done)
	go pass(in, frames, done)
	go passSizes(sizes, frames, done)
	return receive(connection, out, errs)
}

func write(connection net.Conn, frames <-chan []byte, done <-chan struct{}) {
	for {
		select {
		case frame := <-frames:
			if _, err := connection.Write(frame); err != nil {
				return
			}
		case <-done:
			return
		}
	}
}

func pass(in io.Reader, frames chan<- []byte, done <-chan struct{}) {
	for in != nil {
		buffer := make([]byte, 32<<10)
		count, err := in.Read(buffer)
		if count > 0 && !send(frames, frame(stdin, buffer[:count]), done) {
			return
		}
		if err != nil {
			break
		}
	}
	send(frames, frame(closed, nil), done)
}

func passSizes(sizes <-chan remotecommand.TerminalSize, frames chan<- []byte, done <-chan struct{}) {
	for size := range sizes {
		text, _ := json.Marshal([]uint16{size.Width, size.Height}) // numbers can be marshalled
		if !send(frames, frame(resize, text), done) {
			return
		}
	}
}

func send(frames chan<- []byte, frame []byte, done <-chan struct{}) bool {
	select {
	case frames <- frame:
		return true
	case <-done:
		return false
	}
}

func frame(channel byte, data []byte) []byte {
	head := append([]byte{channel}, binary.BigEndian.AppendUint32(nil, uint32(len(data)))...)
	return append(head, data...)
}

// receive writes what comes until the exit code does.
func receive(connection io.Reader, out, errs io.Writer) error {
	head := make([]byte, 5)
	for {
		if _, err := io.ReadFull(connection, head); err != nil {
			return fmt.Errorf("the container is gone: %w", err)
		}
		data := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(connection, data); err != nil {
			return fmt.Errorf("the container is gone: %w", err)
		}
		switch head[0] {
		case status:
			return ending(string(data))
		case stderr:
			deliver(errs, data)
		default:
			deliver(out, data)
		}
	}
}

// deliver drops what the client did not ask for.
func deliver(target io.Writer, data []byte) {
	if target != nil {
		_, _ = target.Write(data) // a client that has gone away is noticed by the request's end
	}
}

func ending(text string) error {
	code, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("the command could not be run: %s", text)
	}
	if code == 0 {
		return nil
	}
	return exec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
}
