package open

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// The SQLSTATEs with which a Postgres server refuses a connection for good (its
// manual, appendix A).
const (
	invalidAuthorization = "28000"
	invalidPassword      = "28P01"
	invalidCatalog       = "3D000"
)

// Refusal returns the server's own words when it is there and has refused the
// connection: no such database, or a user or password that is wrong. The driver
// tells each address and each kind of encryption that it has tried.
func Refusal(err error) (text string, ok bool) {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return "", false
	}
	switch refused.Code {
	case invalidAuthorization, invalidPassword, invalidCatalog:
		return refused.Message, true
	}
	return "", false
}
