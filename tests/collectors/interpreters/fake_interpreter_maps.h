// The maps of the programs in memory.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collectors/interpreters/maps.h"

namespace profd::test {

struct FakeInterpreterState {
  std::array<profd_runtime, PROFD_MAX_RUNTIMES> runtimes{};
  std::array<profd_layout, PROFD_MAX_LAYOUTS> layouts{};
  std::vector<std::uint64_t> asked;
};

class FakeInterpreterMaps final : public InterpreterMaps {
 public:
  explicit FakeInterpreterMaps(FakeInterpreterState& state) : state_(state) {}

  void put_runtime(std::uint16_t number, const profd_runtime& runtime) override {
    state_.runtimes.at(number) = runtime;
  }
  void put_layout(std::uint8_t number, const profd_layout& layout) override {
    state_.layouts.at(number) = layout;
  }
  void ask_again(std::uint64_t id) override { state_.asked.push_back(id); }

 private:
  FakeInterpreterState& state_;
};

}  // namespace profd::test
