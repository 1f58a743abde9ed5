package mapped

import "reflect"

// visit shows all nodes of a syntax tree to at, as pointers, those above before those below them,
// which are left out where at says so. It ends with the first error. It goes by reflection, since
// gojq has no visitor.
func visit(tree reflect.Value, at func(node any) (below bool, err error)) error {
	switch tree.Kind() {
	case reflect.Pointer:
		if tree.IsNil() {
			return nil
		}
		if below, err := at(tree.Interface()); err != nil || !below {
			return err
		}
		return visit(tree.Elem(), at)
	case reflect.Struct:
		for i := range tree.NumField() {
			// Fields that are not exported cannot be read, and gojq keeps no syntax in them.
			if !tree.Type().Field(i).IsExported() {
				continue
			}
			if err := visit(tree.Field(i), at); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range tree.Len() {
			if err := visit(tree.Index(i), at); err != nil {
				return err
			}
		}
	}
	return nil
}
