package analyzer

import (
	"reflect"
	"testing"
	"unsafe"
)

// TestCopySharesNothing copies a flow with an element in each list: an ask that is refused goes back
// to the copy, so no step may change both.
func TestCopySharesNothing(t *testing.T) {
	var f, dst Flow
	fill(reflect.ValueOf(&f).Elem())
	for range 2 { // the second time into memory that is there
		f.copyTo(&dst)
		apart(t, "Flow", reflect.ValueOf(&f).Elem(), reflect.ValueOf(&dst).Elem())
	}
}

// fill gives each list in a struct one element.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		list := reflect.MakeSlice(v.Type(), 1, 1)
		fill(list.Index(0))
		reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem().Set(list)
	}
}

// apart holds that the lists of two structs are equal and share no memory.
func apart(t *testing.T, at string, a, b reflect.Value) {
	t.Helper()
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			apart(t, at+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	case reflect.Slice:
		if a.Len() != b.Len() || a.Pointer() == b.Pointer() {
			t.Errorf("%s has %d elements, the copy has %d, shared: %t", at, a.Len(), b.Len(), a.Pointer() == b.Pointer())
			return
		}
		for i := range a.Len() {
			apart(t, at, a.Index(i), b.Index(i))
		}
	}
}
