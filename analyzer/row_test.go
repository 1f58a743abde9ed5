package analyzer

import "testing"

// TestRowThatDoesNotExist holds that the row for a name without a rule is not taken for the first rule.
func TestRowThatDoesNotExist(t *testing.T) {
	row, ok := RowNamed("no_such_rule")
	if ok || row.OfAgents() || row.OfSubagents() {
		t.Errorf("%+v", row)
	}
	if id, of := row.Flow(); of {
		t.Errorf("it is rule %d", id)
	}
	l := Balanced()
	for what, of := range map[string]func(){
		"setting": func() { row.Setting(&l) }, "status": func() { row.HTTPStatus(&l) }, "text": func() { row.TextOf(&l) }, "limits": func() { row.Limits(&l) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("it has the %s of another row", what)
				}
			}()
			of()
		}()
	}
}
