package wire

import "testing"

func TestBaggage(t *testing.T) {
	f := func(header string, want Flow) {
		t.Helper()
		if got := Baggage([]byte(header)); got != want {
			t.Errorf("%q says %+v, want %+v", header, got, want)
		}
	}
	f("", Flow{})
	f("a=b,c", Flow{})
	f("correlation_id=f", Flow{ID: "f"})
	f("a=b, weir.correlation_id = q%20r ;x=1, correlation_id=later", Flow{ID: "q r"})
	f("root_correlation_id=top,parent_correlation_id=p;ttl=1,correlation_id=f", Flow{"f", "p", "top"})
	f("weir.root_correlation_id=%74op", Flow{Root: "top"})
	if got, want := (Flow{ID: "a"}).Or(Flow{"b", "p", "r"}), (Flow{"a", "p", "r"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
