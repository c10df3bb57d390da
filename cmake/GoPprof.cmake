# Go's pprof as the tests run it: the target go_pprof builds ${GO_PPROF} from Debian's source package
# (golang-github-google-pprof-dev) with Debian's Go 1.19, without network.
include_guard(GLOBAL)

find_program(GO go HINTS /usr/lib/go-1.19/bin REQUIRED)
set(GO_PPROF ${PROJECT_BINARY_DIR}/go-pprof CACHE INTERNAL "Go's pprof")
add_custom_command(
  OUTPUT ${GO_PPROF}
  COMMAND ${CMAKE_COMMAND} -E env GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS=
          GOCACHE=${PROJECT_BINARY_DIR}/go-cache ${GO} build -o ${GO_PPROF} github.com/google/pprof
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
  COMMENT "Building Go's pprof"
  VERBATIM)
add_custom_target(go_pprof ALL DEPENDS ${GO_PPROF})
