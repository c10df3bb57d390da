// What make check-fleet builds: Parca as the Go module registry has it. Go adds what it needs to a copy of this file.
module profd.example/fleet/parca

go 1.25.0

require github.com/parca-dev/parca v0.28.0
