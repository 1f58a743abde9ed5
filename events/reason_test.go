package events

import "testing"

func TestReasons(t *testing.T) {
	want := constants(t, "reasons.go", "Reason")
	if len(want) != ReasonCount {
		t.Errorf("the list has %d reasons, %d are declared", ReasonCount, len(want))
	}
	for _, name := range want {
		if at := Reason(name).Place(); at < 0 || Reasons()[at] != Reason(name) {
			t.Errorf("%s is at %d of the list", name, at)
		}
	}
	if at := Reason("none of these").Place(); at != -1 {
		t.Errorf("a reason that there is not is at %d", at)
	}
}
