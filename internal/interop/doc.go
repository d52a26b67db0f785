// Package interop holds the real packages of the field against this project.
//
// setup makes a virtual environment outside the repository from pinned
// requirements; the Python scripts make inputs with the packages that write the
// real ones and report what those packages say; the tests, behind the build tag
// interop, compare. An environment that cannot be made is reported as NOT RUN.
//
//	go test -tags interop ./internal/interop -v
package interop
