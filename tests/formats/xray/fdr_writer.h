// Writes traces like XRay's Flight Data Recorder, for tests and benches of the readers.
//
// Each function appends one record in the form of formats/xray/fdr_format.h, of any version and
// byte order. The content of the record may be invalid.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/xray/fdr_reader.h"

namespace profd::xray {

[[nodiscard]] std::string encode_header(const Header& header);

class Writer {
 public:
  explicit Writer(const Format& format) : format_(format) {}

  void function(Action action, std::uint32_t id, std::uint32_t delta);
  void new_buffer(std::int32_t thread);
  void end_of_buffer();
  void new_cpu(std::uint16_t cpu, std::uint64_t ticks);
  void ticks(std::uint64_t ticks);
  void wall_clock(std::int64_t wall_ns);
  void argument(std::uint64_t value);
  void pid(std::int32_t process);
  // `ticks` is a delta in version 5.
  void custom_event(std::string_view payload, std::uint64_t ticks);
  void typed_event(std::uint16_t type, std::string_view payload, std::uint64_t ticks);

  // The first records of a buffer, which depend on the version.
  struct Preamble {
    std::int32_t process = 0;
    std::int32_t thread = 0;
    std::int64_t wall_ns = 0;
    std::uint64_t ticks = 0;
    std::uint16_t cpu = 0;
  };
  void preamble(const Preamble& preamble);

  // Returns and removes the records as a buffer of a trace: behind BUFFER_EXTENTS, or in version 1
  // padded to `buffer_bytes`.
  [[nodiscard]] std::string take_buffer(std::uint64_t buffer_bytes = 0);
  // Returns and removes the records.
  [[nodiscard]] std::string take_records();

 private:
  void metadata(Kind kind, std::string_view data);
  void event(Kind kind, std::string_view data, std::string_view payload);

  template <class T>
  [[nodiscard]] std::string bytes_of(T value) const;

  Format format_;
  std::string records_;
};

}  // namespace profd::xray
