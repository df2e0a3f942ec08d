package endpoint

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

func TestPublic(t *testing.T) {
	for _, c := range []struct {
		addr string
		want bool
	}{
		{"8.8.8.8", true}, {"1.1.1.1", true}, {"172.15.255.255", true}, {"172.32.0.0", true}, {"100.63.255.255", true},
		{"100.128.0.0", true}, {"223.255.255.255", true}, {"11.0.0.0", true}, {"168.63.129.17", true},
		{"0.0.0.0", false}, {"0.1.2.3", false}, {"10.0.0.1", false}, {"10.255.255.255", false}, {"100.64.0.1", false},
		{"100.100.100.200", false}, {"100.127.255.255", false}, {"127.0.0.1", false}, {"127.9.9.9", false},
		{"169.254.169.254", false}, {"172.16.0.1", false}, {"172.31.255.255", false}, {"192.0.0.192", false},
		{"192.0.2.1", false}, {"192.168.0.1", false}, {"198.18.0.1", false}, {"198.19.255.255", false},
		{"224.0.0.1", false}, {"239.255.255.255", false}, {"240.0.0.1", false}, {"255.255.255.255", false},
		{"168.63.129.16", false},
		{"2606:4700:4700::1111", true}, {"2a00:1450:4001::1", true}, {"2400:cb00::1", true},
		{"::", false}, {"::1", false}, {"fe80::1", false}, {"fe80::1%eth0", false}, {"fc00::1", false}, {"fd00:ec2::254", false},
		{"fec0::1", false}, {"ff02::1", false}, {"2001:db8::1", false}, {"2001::1", false}, {"2002:7f00:1::", false},
		{"100::1", false}, {"3fff::1", false}, {"4000::1", false},
		{"::ffff:8.8.8.8", true}, {"::ffff:127.0.0.1", false}, {"::ffff:10.0.0.1", false}, {"::ffff:169.254.169.254", false},
		{"64:ff9b::8.8.8.8", true}, {"64:ff9b::127.0.0.1", false}, {"64:ff9b::a9fe:a9fe", false}, {"64:ff9b:1::8.8.8.8", false},
		{"::127.0.0.1", false},
	} {
		addr := netip.MustParseAddr(c.addr)
		if got := isPublic(addr); got != c.want {
			t.Errorf("%s: got %v, want %v", c.addr, got, c.want)
		}
		err := refusePrivate("tcp", netip.AddrPortFrom(addr, 80).String(), nil)
		if (err == nil) != c.want || err != nil && !errors.Is(err, ErrPrivate) {
			t.Errorf("%s: got %v, want %v", c.addr, err, c.want)
		}
	}
	if err := refusePrivate("tcp", "not an address", nil); !errors.Is(err, ErrPrivate) {
		t.Errorf("got %v, want %v", err, ErrPrivate)
	}
}

func TestDial(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("a name is judged by the addresses that it resolves to", func(t *testing.T) {
		// The name passes the check of the URL's text only because it is not
		// asked here: what decides is the connection.
		for _, host := range []string{"localhost", "127.0.0.1", "[::ffff:127.0.0.1]"} {
			for allow, want := range map[bool]bool{false: false, true: true} {
				transport := newTransport(allow, 1)
				conn, err := transport.DialContext(t.Context(), "tcp", host+":"+port)
				if (err == nil) != want || err != nil && !errors.Is(err, ErrPrivate) {
					t.Errorf("%s, private addresses allowed: %v: got %v", host, allow, err)
				}
				if err == nil {
					_ = conn.Close()
				}
			}
		}
	})
	t.Run("no proxy is used", func(t *testing.T) {
		if newTransport(false, 1).Proxy != nil {
			t.Error("a proxy would connect to addresses that nobody has checked")
		}
	})
}
