package pump

import (
	"slices"
	"testing"

	"weir/analyzer/budgets"
)

// TestFuller holds that an account which may spend nothing is among the fullest: it refuses each call.
func TestFuller(t *testing.T) {
	t.Parallel()
	account := func(name string, spent, limit float64) budgets.View {
		return budgets.View{Budget: name, Spent: spent, Limit: &limit}
	}
	list := []budgets.View{{Budget: "warns", Spent: 9}, account("half", 5, 10), account("nothing", 0, 0), account("full", 10, 10), account("over", 12, 10)}
	slices.SortFunc(list, fuller)
	var got []string
	for i := range list {
		got = append(got, list[i].Budget)
	}
	if want := []string{"over", "full", "nothing", "half", "warns"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
