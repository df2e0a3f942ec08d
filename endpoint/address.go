package endpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// ErrPrivate is matched by the error of a request that was refused because its
// address is not public.
var ErrPrivate = errors.New("address is not public")

// refusePrivate is a [net.Dialer]'s Control: it sees each address that a name
// was resolved to, just before the connection is made.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrPrivate, address)
	}
	if !isPublic(at.Addr()) {
		return fmt.Errorf("%w: %s", ErrPrivate, at.Addr())
	}
	return nil
}

// checkHost refuses at once what can be seen without a resolver.
func checkHost(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil && !isPublic(addr) {
		return fmt.Errorf("%w: %s", ErrPrivate, addr)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761, 6.3
		return fmt.Errorf("%w: %s", ErrPrivate, name)
	}
	return nil
}

// notPublic are the blocks of IPv4 that are not globally reachable by IANA's
// special-purpose registry (RFC 6890 and its updates), and multicast.
var notPublic = prefixes(
	"0.0.0.0/8",        // this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // shared by carrier-grade NAT; Alibaba's metadata service
	"127.0.0.0/8",      // loopback
	"169.254.0.0/16",   // link-local; most clouds' metadata services
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments; Oracle's metadata service
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // 6to4 relays, deprecated
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, broadcast
	"168.63.129.16/32", // public by its number, but Azure's host answers there
)

// notPublic6 are the blocks within 2000::/3, IPv6's global unicast space, that
// are not globally reachable.
var notPublic6 = prefixes(
	"2001::/23",     // protocol assignments, Teredo among them
	"2001:db8::/32", // documentation
	"2002::/16",     // 6to4, deprecated: carries an IPv4 address
	"3fff::/20",     // documentation
)

var (
	global6 = netip.MustParsePrefix("2000::/3")
	// nat64 carries an IPv4 address in its last four bytes (RFC 6052); a
	// network with only IPv6 reaches the rest of the world through it.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// isPublic reports whether addr is reachable by everybody, so that a request to
// it reaches nothing that is only ours.
func isPublic(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if addr.Is4() {
		return !within(notPublic, addr)
	}
	return global6.Contains(addr) && !within(notPublic6, addr)
}

func within(blocks []netip.Prefix, addr netip.Addr) bool {
	for _, block := range blocks {
		if block.Contains(addr) {
			return true
		}
	}
	return false
}

func prefixes(texts ...string) []netip.Prefix {
	blocks := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		blocks[i] = netip.MustParsePrefix(text)
	}
	return blocks
}
