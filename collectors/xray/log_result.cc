#include "collectors/xray/log_result.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "collectors/xray/live_reader.h"
#include "formats/base/seeded_hash.h"
#include "formats/xray/log.h"
#include "formats/xray/map.h"

namespace profd::xray {
namespace {

// For the index of a million buffers and the map of a program.
constexpr std::uint64_t kIndexBytes = std::uint64_t{96} << 20;

Result<ByteSource> source_file_of(int log) {
  struct stat status {};
  if (::fstat(log, &status) != 0 || status.st_size < 0)
    return fail_errno("could not read the trace");
  return ByteSource{.bytes = static_cast<std::uint64_t>(status.st_size),
                    .read_at = [log](std::uint64_t offset, std::span<char> to) {
                      const ssize_t got =
                          ::pread(log, to.data(), to.size(), static_cast<off_t>(offset));
                      return got < 0 ? std::size_t{0} : static_cast<std::size_t>(got);
                    }};
}

}  // namespace

Result<std::int32_t> process_of_log(int log) {
  const auto source = source_file_of(log);
  if (!source) return source.error();
  std::array<char, kHeaderBytes> bytes{};
  const std::size_t got = source->read_at(0, bytes);
  const auto header = read_header(std::string_view(bytes.data(), got));
  if (!header) return header.error();
  Report report;
  std::int32_t process = 0;
  find_buffers(*source, *header, report, [&process](const FoundBuffer& buffer) {
    if (process == 0) process = buffer.thread.process;
  });
  return process;
}

Result<LiveResult> read_log(int log, int program) {
  auto source = source_file_of(log);
  if (!source) return source.error();
  const auto map = program < 0 ? Result<FunctionMap>(FunctionMap()) : read_function_map(program);
  if (!map) return map.error();
  Log reader;
  if (auto added = reader.add(std::move(*source)); !added) return added.error();
  reader.sort();
  const LiveLimits limits = LiveLimits::of(kLogMemoryBytes - kIndexBytes);
  StacksOptions options;
  options.seed = random_seed();
  options.max_nodes = limits.stacks;
  Stacks stacks(options);
  reader.read(stacks);
  Measured measured = stacks.finish();
  measured.report.add(reader.report());
  const std::uint64_t first = map->functions.empty() ? 0 : map->functions.front().address;
  auto result = make_result(measured, reader.clock().ns_per_tick(),
                            {.file = program, .map = *map, .first = first}, limits.frames);
  if (result) result->functions = map->functions.size();
  return result;
}

}  // namespace profd::xray
