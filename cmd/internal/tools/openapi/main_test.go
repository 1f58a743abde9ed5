package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
)

// TestDescription holds that the description in the repository is what this program writes, and valid
// OpenAPI 3.1.
func TestDescription(t *testing.T) {
	want, err := describe()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("schemas/openapi.v1.json is not what the program writes: run go run . in cmd/internal/tools/openapi")
	}
	f := func(text []byte, valid bool) {
		t.Helper()
		doc, err := libopenapi.NewDocument(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := doc.BuildV3Model(); err != nil {
			if valid {
				t.Fatal(err)
			}
			return
		}
		v, errs := validator.NewValidator(doc)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if ok, faults := v.ValidateDocument(); ok != valid {
			t.Errorf("valid: %v, want %v", ok, valid)
			for _, fault := range faults {
				t.Log(fault.Message, fault.Reason, fault.SchemaValidationErrors)
			}
		}
	}
	f(want, true)
	// The test sees a fault: a reference to nothing, and a parameter without a name.
	f(bytes.ReplaceAll(want, []byte(`"$ref": "#/components/schemas/FlowList"`), []byte(`"$ref": "#/components/schemas/Nothing"`)), false)
	f(bytes.Replace(want, []byte(`"name": "Idempotency-Key"`), []byte(`"named": "Idempotency-Key"`), 1), false)
}
