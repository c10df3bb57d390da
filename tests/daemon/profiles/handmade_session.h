// A session snapshot that a test builds, as the io thread moves it to the worker.

#pragma once

#include <string>

#include "daemon/samples/snapshot.h"

namespace profd::test {

// A session of 99 Hz on the CPU, without a process.
inline SessionSnapshot handmade_session() {
  SessionSnapshot snapshot;
  snapshot.session = "00c0ffee";
  snapshot.event = {.name = "cpu", .unit = "microseconds", .frequency_hz = 99};
  return snapshot;
}

// Valid until the next one is added.
inline ProcessSnapshot& add_process(SessionSnapshot& snapshot, const ProcessKey& key,
                                    const std::string& comm) {
  ProcessSnapshot& process = snapshot.processes.emplace_back();
  process.key = key;
  process.image.comm = comm;
  return process;
}

}  // namespace profd::test
