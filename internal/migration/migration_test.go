package migration

import (
	"strings"
	"testing"
	"testing/fstest"
)

func files(contents map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, text := range contents {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fs
}

func TestLoad(t *testing.T) {
	t.Run("reads the steps in the order of their versions", func(t *testing.T) {
		got, err := Load(files(map[string]string{
			"0002_more.sql": "-- oldest program: 1\ncreate 2", "0002_more.down.sql": "drop 2",
			"0001_jobs.sql": "-- oldest program: 1\ncreate 1", "0001_jobs.down.sql": "drop 1",
			"README": "not one of them",
		}))
		if err != nil {
			t.Fatal(err)
		}
		want := []Migration{
			{Version: 1, Name: "jobs", Up: "-- oldest program: 1\ncreate 1", Down: "drop 1", Oldest: 1},
			{Version: 2, Name: "more", Up: "-- oldest program: 1\ncreate 2", Down: "drop 2", Oldest: 1},
		}
		if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})

	for _, fault := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"a gap in the versions", map[string]string{
			"0001_a.sql": "-- oldest program: 1\n", "0001_a.down.sql": "", "0003_c.sql": "-- oldest program: 1\n", "0003_c.down.sql": "",
		}, "version 2 expected"},
		{"a step without a way down", map[string]string{"0001_a.sql": "-- oldest program: 1\n"}, "no way down"},
		{"a step that does not name the oldest program", map[string]string{"0001_a.sql": "create", "0001_a.down.sql": ""}, "oldest program"},
	} {
		t.Run("refuses "+fault.name, func(t *testing.T) {
			if got, err := Load(files(fault.files)); err == nil || !strings.Contains(err.Error(), fault.want) {
				t.Errorf("got %v, %v, want an error with %q", got, err, fault.want)
			}
		})
	}
}
