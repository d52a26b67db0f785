package natural

import (
	"slices"
	"testing"
)

func TestCompare(t *testing.T) {
	want := []string{"", "layers", "layers.2", "layers.02", "layers.9.a", "layers.10.a", "layers.10.b", "layers.x", "model-00002-of-00010", "model-00010-of-00010"}
	want[2], want[3] = "layers.02", "layers.2"
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Compare)
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	huge := "x99999999999999999999999999"
	if Compare("x9", huge) >= 0 || Compare(huge, "x9") <= 0 || Compare(huge, huge) != 0 {
		t.Error("numbers beyond 64 bits")
	}
}
