package server

import "testing"

func TestFileSystem(t *testing.T) {
	const mounts = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
23 22 0:5 / /tmp rw - tmpfs tmpfs rw
24 22 0:6 / /tmp/big rw,relatime - ext4 /dev/old rw
25 22 0:7 / /tmp/big rw,relatime - xfs /dev/new rw
`
	for _, c := range []struct{ dir, want string }{
		{"/var/lib", "ext4"},
		{"/tmp/later-pg-1", "tmpfs"},
		{"/tmp", "tmpfs"},
		{"/tmpx", "ext4"},
		{"/tmp/big/data", "xfs"},
	} {
		if got := fileSystemIn(mounts, c.dir); got != c.want {
			t.Errorf("%s: got %q, want %q", c.dir, got, c.want)
		}
	}
	if got := fileSystemIn("nonsense\n", "/tmp"); got != "" {
		t.Errorf("got %q of nonsense, want nothing", got)
	}
}
