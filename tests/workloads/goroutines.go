// A recursion in a goroutine, busy at its bottom.
//
//	goroutines SECONDS FRAMES
package main

import (
	"os"
	"strconv"
	"time"
)

var sink uint64

//go:noinline
func bottom(end time.Time) {
	for time.Now().Before(end) {
		// Three loops, so that many addresses of the program itself are hit.
		for i := uint64(0); i < 30000; i++ {
			sink = (sink ^ i) * 1099511628211
		}
		for i := uint64(0); i < 30000; i++ {
			sink += i >> 3
			sink ^= sink << 7
		}
		for i := uint64(1); i < 30000; i++ {
			sink ^= sink >> 9
			sink += 1234567891011 / i
		}
	}
}

//go:noinline
func descend(frames int, end time.Time) {
	if frames <= 1 {
		bottom(end)
	} else {
		descend(frames-1, end)
	}
	sink++
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	frames, _ := strconv.Atoi(os.Args[2])
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	done := make(chan bool)
	go func() {
		descend(frames, end)
		done <- true
	}()
	<-done
}
