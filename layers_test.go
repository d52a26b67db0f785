package ckpt

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ckpt-surgery/ckpt"

// rank orders the packages: a package may import those of a lower rank only.
// Equal ranks are siblings, which do not import each other.
var rank = map[string]int{
	"cmd/ckpt":               9,
	"patch":                  8,
	"manifest":               7,
	"scheme/lint":            7,
	"scheme/quantize":        7,
	"scheme/recipe":          6,
	"scheme/scan":            6,
	"scheme/model":           5,
	"scheme":                 4,
	"safetensors/checkpoint": 3,
	"safetensors":            2,
	"internal/kernel":        1,
}

// testOnly packages are for tests; no program contains them.
var testOnly = []string{"internal/vectors", "internal/interop"}

// sources calls visit for each Go file of the module.
func sources(t *testing.T, visit func(dir string, file *ast.File, fset *token.FileSet, test bool)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); p != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		n++
		visit(path.Dir(filepath.ToSlash(p)), file, fset, strings.HasSuffix(p, "_test.go"))
		return nil
	})
	if err != nil || n < 20 {
		t.Fatalf("%d files parsed: %v", n, err)
	}
}

func imports(file *ast.File) []string {
	var out []string
	for _, i := range file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

// TestArrows checks who imports whom.
func TestArrows(t *testing.T) {
	thirdParty := map[string]map[string]bool{} // of internal packages
	sources(t, func(dir string, file *ast.File, fset *token.FileSet, test bool) {
		internal := strings.HasPrefix(dir, "internal/")
		if _, ok := rank[dir]; !ok && !internal && dir != "." && !strings.HasPrefix(dir, "examples") {
			t.Errorf("%s has no place in the order; give it one in rank", dir)
		}
		for _, p := range imports(file) {
			to, ours := strings.CutPrefix(p, module+"/")
			switch {
			case test:
			case !ours && internal && strings.Contains(p, "."):
				if thirdParty[dir] == nil {
					thirdParty[dir] = map[string]bool{}
				}
				thirdParty[dir][strings.Join(strings.SplitN(p, "/", 4)[:3], "/")] = true
			case !ours:
			case slices.Contains(testOnly, to):
				t.Errorf("%s imports %s, which is for tests", dir, to)
			case internal:
				t.Errorf("%s imports %s; internal packages import the standard library and one dependency", dir, to)
			case strings.HasPrefix(to, "internal/") && to != "internal/kernel":
			case strings.HasPrefix(dir, "examples"):
			case rank[to] == 0:
				t.Errorf("%s imports %s, which has no place in the order", dir, to)
			case rank[to] >= rank[dir]:
				t.Errorf("%s (rank %d) imports %s (rank %d); imports go down: see ARCHITECTURE.md", dir, rank[dir], to, rank[to])
			}
		}
	})
	for dir, deps := range thirdParty {
		if len(deps) > 1 {
			t.Errorf("%s has dependencies %v; one job, one dependency", dir, deps)
		}
	}
}

// TestLibraryManners checks that nothing below cmd does what only a program may:
// flags, logs, exits, the environment, init functions, state in packages, unsafe.
func TestLibraryManners(t *testing.T) {
	banned := map[string]string{"flag": "flags", "log": "logging", "log/slog": "logging"}
	calls := map[string]bool{"os.Exit": true, "os.Getenv": true, "os.LookupEnv": true, "os.Environ": true, "os.Setenv": true, "os.ExpandEnv": true}
	globals := map[string]map[string]bool{}
	type assigned struct{ dir, name, at string }
	var assignments []assigned
	sources(t, func(dir string, file *ast.File, fset *token.FileSet, test bool) {
		if test || strings.HasPrefix(dir, "cmd/") || strings.HasPrefix(dir, "examples") {
			return
		}
		at := func(n ast.Node) string { return fset.Position(n.Pos()).String() }
		for _, p := range imports(file) {
			if what := banned[p]; what != "" {
				t.Errorf("%s imports %s: %s belong to cmd", dir, p, what)
			}
			if p == "unsafe" && dir != "internal/kernel" {
				t.Errorf("%s imports unsafe; only internal/kernel may", dir)
			}
		}
		if globals[dir] == nil {
			globals[dir] = map[string]bool{}
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: init function", at(d))
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR {
					continue
				}
				for _, spec := range d.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						globals[dir][name.Name] = true
					}
				}
			}
		}
		top := file.Scope // objects of this file's top level
		assign := func(e ast.Expr) {
			for {
				switch x := e.(type) {
				case *ast.IndexExpr:
					e = x.X
					continue
				case *ast.SelectorExpr:
					e = x.X
					continue
				case *ast.StarExpr:
					e = x.X
					continue
				case *ast.Ident:
					if x.Obj == nil || top.Lookup(x.Name) == x.Obj {
						assignments = append(assignments, assigned{dir, x.Name, at(x)})
					}
				}
				return
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && calls[x.Name+"."+n.Sel.Name] {
					t.Errorf("%s: %s.%s belongs to cmd", at(n), x.Name, n.Sel.Name)
				}
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						assign(e)
					}
				}
			case *ast.IncDecStmt:
				assign(n.X)
			}
			return true
		})
	})
	for _, a := range assignments {
		if globals[a.dir][a.name] {
			t.Errorf("%s: assigns to the package variable %s", a.at, a.name)
		}
	}
}
