package endpoint

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

func TestGate(t *testing.T) {
	const limit = 4
	enter := func(g *gate) (func(), time.Duration) { return g.enter(context.Background(), "a", limit) }
	fill := func(t *testing.T, g *gate) (leave []func()) {
		t.Helper()
		for range limit {
			l, _ := enter(g)
			if l == nil {
				t.Fatal("the host is full too early")
			}
			leave = append(leave, l)
		}
		return leave
	}
	t.Run("a job waits for a quick host", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			leave := fill(t, g)
			go func() { time.Sleep(20 * time.Millisecond); leave[0]() }()
			began := time.Now()
			l, _ := enter(g)
			if l == nil {
				t.Fatal("it was put off")
			}
			if got, want := time.Since(began), 20*time.Millisecond; got != want {
				t.Errorf("it waited %v, want %v", got, want)
			}
		})
	})
	t.Run("a job waits for a fifth of a second at most", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			fill(t, g)
			began := time.Now()
			if l, busy := enter(g); l != nil || busy < minBusySnooze {
				t.Errorf("got %v, want at least %v", busy, minBusySnooze)
			}
			if got, want := time.Since(began), 2*shortWait; got != want {
				t.Errorf("it waited %v, want %v", got, want)
			}
		})
	})
	t.Run("a job does not wait for a host that has stopped answering", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			for range 20 { // it was quick before
				l, _ := enter(g)
				time.Sleep(time.Millisecond)
				l()
			}
			fill(t, g)
			time.Sleep(10 * time.Second)
			began := time.Now()
			if l, _ := enter(g); l != nil {
				t.Error("a job came in over the limit")
			}
			if got := time.Since(began); got != 0 {
				t.Errorf("it waited %v", got)
			}
		})
	})
	t.Run("jobs that are put off come back one after another, at the host's pace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			fill(t, g)
			time.Sleep(8 * time.Second) // a request takes 8 s: with 4 at once, a turn every 2 s
			for i := 1; i <= 100; i++ {
				l, busy := enter(g)
				if want := time.Duration(i) * 2 * time.Second; l != nil || busy != want {
					t.Fatalf("job %d: got %v, want %v", i, busy, want)
				}
			}
			for range 1000 {
				if _, busy := enter(g); busy < minBusySnooze || busy > maxBusySnooze {
					t.Fatalf("got %v, want %v at most", busy, maxBusySnooze)
				}
			}
		})
	})
	t.Run("a wait ends with the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			fill(t, g)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			began := time.Now()
			if l, _ := g.enter(ctx, "a", limit); l != nil {
				t.Error("a job came in over the limit")
			}
			if got, want := time.Since(began), 5*time.Millisecond; got != want {
				t.Errorf("it waited %v, want %v", got, want)
			}
		})
	})
	t.Run("a negative limit is none, and another host has its own", func(t *testing.T) {
		g := newGate()
		fill(t, g)
		for range 100 {
			if l, _ := g.enter(t.Context(), "a", -1); l == nil {
				t.Fatal("it was put off")
			}
		}
		if l, _ := g.enter(t.Context(), "b", limit); l == nil {
			t.Fatal("another host was put off")
		}
	})
}

func TestParseDelay(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	stamp := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		value, date string
		want        time.Duration
		ok          bool
	}{
		{"120", "", 2 * time.Minute, true},
		{" 120 ", "", 2 * time.Minute, true},
		{"0", "", MinDelay, true},
		{"86400", "", MaxDelay, true},
		{"86401", "", MaxDelay, true},
		{strings.Repeat("9", 100), "", MaxDelay, true},
		{stamp(time.Hour), "", time.Hour, true},
		{"Monday, 01-Jun-26 13:00:00 GMT", "", time.Hour, true},
		{"Mon Jun  1 13:00:00 2026", "", time.Hour, true},
		{stamp(time.Hour), stamp(-time.Hour), 2 * time.Hour, true}, // the server's clock is an hour late
		{stamp(-time.Hour), stamp(-2 * time.Hour), time.Hour, true},
		{stamp(time.Hour), "yesterday", time.Hour, true},
		{stamp(1000 * time.Hour), "", MaxDelay, true},
		{stamp(0), "", 0, false},
		{stamp(-time.Second), "", 0, false},
		{"", "", 0, false},
		{"-1", "", 0, false},
		{"+1", "", 0, false},
		{"1.5", "", 0, false},
		{"1e3", "", 0, false},
		{"soon", "", 0, false},
		{"30s", "", 0, false},
		{"1, 2", "", 0, false},
		{"٣", "", 0, false}, // a digit of another script
	} {
		got, ok := parseDelay(c.value, c.date, now)
		if got != c.want || ok != c.ok {
			t.Errorf("%q at %q: got %v, %v; want %v, %v", c.value, c.date, got, ok, c.want, c.ok)
		}
	}
}

func FuzzParseDelay(f *testing.F) {
	for _, seed := range []string{"120", "-1", "soon", "99999999999999999999", "Mon, 01 Jun 2026 13:00:00 GMT", "Mon Jun  1 13:00:00 2026"} {
		f.Add(seed, seed)
	}
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value, date string) {
		d, ok := parseDelay(value, date, now)
		if ok && (d < MinDelay || d > MaxDelay) || !ok && d != 0 {
			t.Errorf("%q: got %v, %v", value, d, ok)
		}
		if ok {
			if s := spread(d); s < d || s > d+d/5 {
				t.Errorf("%v was spread to %v", d, s)
			}
		}
	})
}
