package server

import (
	"maps"
	"testing"
)

func TestParseInfo(t *testing.T) {
	got := parseInfo("# Server\r\nredis_version:7.0.15\r\nexecutable:/usr/bin/redis-server\r\nconfig_file:\r\nlisteners:127.0.0.1:6379\r\n\r\n")
	want := map[string]string{
		"redis_version": "7.0.15", "executable": "/usr/bin/redis-server", "config_file": "", "listeners": "127.0.0.1:6379",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
