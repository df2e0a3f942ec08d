package memory_test

import (
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/memory"
	"github.com/later-queue/later/storetest"
)

func open(t *testing.T) later.Store {
	store := memory.New()
	t.Cleanup(func() { store.Close() })
	return store
}

func TestContract(t *testing.T) { storetest.Run(t, open) }

func TestLimits(t *testing.T) {
	storetest.Limits(t, func(t *testing.T) (later.Store, func(*testing.T) later.Store) { return open(t), nil })
}

func TestTenantsContract(t *testing.T) {
	storetest.RunTenants(t, func(t *testing.T) later.Store {
		store := memory.New()
		t.Cleanup(func() { store.Close() })
		return store
	})
}
