// What the server of Go's net/http makes of the bytes of a connection; the protocol is that of
// tests/support/http_verdict.cc. A request counts once its body has been read.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// A connection whose peer has sent everything and waits for the answers.
type connection struct {
	in     *bytes.Reader
	out    bytes.Buffer
	lines  strings.Builder
	failed string
	once   sync.Once
	closed chan struct{}
}

func (c *connection) Read(p []byte) (int, error)       { return c.in.Read(p) }
func (c *connection) Write(p []byte) (int, error)      { return c.out.Write(p) }
func (c *connection) Close() error                     { c.once.Do(func() { close(c.closed) }); return nil }
func (c *connection) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *connection) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *connection) SetDeadline(time.Time) error      { return nil }
func (c *connection) SetReadDeadline(time.Time) error  { return nil }
func (c *connection) SetWriteDeadline(time.Time) error { return nil }

type listener chan net.Conn

func (l listener) Accept() (net.Conn, error) { return <-l, nil }
func (l listener) Close() error              { return nil }
func (l listener) Addr() net.Addr            { return &net.TCPAddr{} }

var current *connection

func handle(_ http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err == io.ErrUnexpectedEOF {
		return // not whole: no verdict
	}
	if err != nil {
		current.failed = err.Error()
		return
	}
	fmt.Fprintf(&current.lines, "%s %s %x\t", request.Method, request.RequestURI, body)
}

func main() {
	connections := make(listener)
	server := &http.Server{Handler: http.HandlerFunc(handle), ErrorLog: log.New(io.Discard, "", 0)}
	go server.Serve(connections)
	for {
		var size uint32
		if binary.Read(os.Stdin, binary.LittleEndian, &size) != nil {
			return
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(os.Stdin, data); err != nil {
			return
		}
		current = &connection{in: bytes.NewReader(data), closed: make(chan struct{})}
		connections <- current
		<-current.closed
		// Its own refusals say Connection: close and name themselves in the body.
		_, last, found := strings.Cut(current.out.String(), "Connection: close\r\n\r\n")
		switch {
		case current.failed != "":
			fmt.Printf("%srefused: %s\n", current.lines.String(), current.failed)
		case found && last != "":
			fmt.Printf("%srefused: %s\n", current.lines.String(), strings.ReplaceAll(last, "\n", " "))
		default:
			fmt.Printf("%sok\n", current.lines.String())
		}
	}
}
