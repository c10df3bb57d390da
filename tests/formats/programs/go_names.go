// Prints addresses of its own code and, for each, what the Go runtime says of it: the innermost
// function, its file and its line. The first line has the start of the program in memory.
//
//	go_names COUNT
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"runtime"
	"sort"
	"strconv"
	"strings"
)

type number interface{ int | float64 }

func larger[T number](a, b T) T {
	if a > b {
		return a
	}
	return b
}

type square struct{ side float64 }

func (s square) area() float64     { return product(s.side, s.side) }
func product(a, b float64) float64 { return larger(a, 0) * larger(b, 1) }

//go:noinline
func work(squares []square) float64 {
	total := 0.0
	for i, s := range squares {
		total += larger(s.area(), float64(i))
	}
	func() {
		defer func() { total++ }()
		total += product(total, 2)
	}()
	return total
}

// The start of the first mapping of the program's file.
func start() string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		panic(err)
	}
	name, _ := os.Executable()
	for _, line := range strings.Split(string(maps), "\n") {
		if strings.HasSuffix(line, name) {
			return strings.SplitN(line, "-", 2)[0]
		}
	}
	panic("there is no mapping of " + name)
}

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	fmt.Println(start())
	if work([]square{{1}, {2}}) < 0 {
		return
	}
	var functions []uintptr
	for _, f := range []any{main, work, fmt.Println, json.Marshal, sort.Strings, strconv.Itoa, runtime.GC} {
		functions = append(functions, reflect.ValueOf(f).Pointer())
	}
	random := rand.New(rand.NewSource(1))
	for i := 0; i < count; {
		spread := 1 << (8 + random.Intn(8))
		pc := functions[random.Intn(len(functions))] + uintptr(random.Intn(spread))
		// A frame's address is that of the return: one byte on, and in the same function.
		f, next := runtime.FuncForPC(pc), runtime.FuncForPC(pc+1)
		if f == nil || next == nil || f.Entry() != next.Entry() {
			continue
		}
		frame, _ := runtime.CallersFrames([]uintptr{pc + 1}).Next()
		fmt.Printf("%x %s %s:%d\n", pc, frame.Function, frame.File, frame.Line)
		i++
	}
}
