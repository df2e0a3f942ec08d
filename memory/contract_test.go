package memory_test

import (
	"testing"

	"github.com/later-queue/later"
	"github.com/later-queue/later/memory"
	"github.com/later-queue/later/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) later.Store {
		store := memory.New()
		t.Cleanup(func() { store.Close() })
		return store
	})
}

func TestTenantsContract(t *testing.T) {
	storetest.RunTenants(t, func(t *testing.T) later.Store {
		store := memory.New()
		t.Cleanup(func() { store.Close() })
		return store
	})
}
