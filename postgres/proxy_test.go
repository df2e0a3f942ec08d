package postgres_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a store and its server, and cuts the line where it hurts.
type proxy struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	before string // cut instead of forwarding what contains it
	after  string // forward what contains it, and cut instead of forwarding the answer
	cuts   int
}

// newProxy starts one in front of the server at address, and returns its own
// address. Statements go as text, so that the proxy can read them.
func newProxy(t *testing.T, address string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: u.Host}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait() // the stores are closed before: cleanups run last to first
	})
	u.Host = listener.Addr().String()
	query := u.Query()
	query.Set("default_query_exec_mode", "exec")
	u.RawQuery = query.Encode()
	return p, u.String()
}

// cutBefore has the line cut, once, instead of forwarding a message that contains
// text: nothing has happened then.
func (p *proxy) cutBefore(text string) { p.set(text, "") }

// cutAfter has the line cut, once, instead of forwarding the answer to a message that
// contains text: then it has happened, and nobody knows.
func (p *proxy) cutAfter(text string) { p.set("", text) }

func (p *proxy) set(before, after string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before, p.after = before, after
}

func (p *proxy) cutCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// verdict is what to do with a message, and forgets the order when it is carried out.
func (p *proxy) verdict(message []byte) (before, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before = p.before != "" && bytes.Contains(message, []byte(p.before))
	after = p.after != "" && bytes.Contains(message, []byte(p.after))
	if before || after {
		p.before, p.after = "", ""
		p.cuts++
	}
	return before, after
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	swallow := make(chan struct{})
	var once sync.Once
	done := make(chan struct{})
	go func() { // from the server
		defer close(done)
		defer client.Close()
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			select {
			case <-swallow:
				// Ready for query: the server has done all that it was sent.
				if bytes.Contains(buffer[:n], []byte("Z\x00\x00\x00\x05")) {
					return
				}
			default:
				if _, err := client.Write(buffer[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			break
		}
		before, after := p.verdict(buffer[:n])
		if before {
			break
		}
		if after {
			once.Do(func() { close(swallow) })
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			break
		}
		if after {
			<-done
			return
		}
	}
	server.Close()
	<-done
	_, _ = io.Copy(io.Discard, client) // what is left, so that the close is seen as one
}
