// A session snapshot that a test builds, as the io thread moves it to the worker.

#pragma once

#include <memory>
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

// To change the image of a process, which only the snapshot has.
inline ProcessImage& image_of(ProcessSnapshot& process) {
  auto image = std::make_shared<ProcessImage>(*process.image);
  process.image = image;
  return *image;
}

// Valid until the next one is added.
inline ProcessSnapshot& add_process(SessionSnapshot& snapshot, const ProcessKey& key,
                                    const std::string& comm) {
  ProcessSnapshot& process = snapshot.processes.emplace_back();
  process.key = key;
  image_of(process).comm = comm;
  return process;
}

}  // namespace profd::test
