// The daemon's side of the symbolizer.

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "collectors/symbolizer/messages.h"
#include "collectors/symbolizer/symbolizer.h"

namespace profd {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using symbolizer::Operation;

// Beside the memory of the symbolizer itself, the files of a request are mapped.
constexpr std::uint64_t kAddressSpaceBytes = (std::uint64_t{2} << 30) + 3 * kMaxDwarfFileBytes;
// The child ends its work itself before it is killed, unless it hangs in one call of libdw.
constexpr milliseconds kTimeToAnswer{500};

// The private memory of a process that holds no file; 0 where it is not known.
std::uint64_t private_bytes_of(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  std::string key;
  while (status >> key) {
    std::uint64_t kib = 0;
    if (key == "RssAnon:" && status >> kib) return kib << 10;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

// As far as the kernel knows without asking the file system, which may not answer. The child checks
// again.
bool is_too_large(int fd) {
  struct statx status {};
  return fd >= 0 && ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE, &status) == 0 &&
         (status.stx_mask & STATX_SIZE) != 0 && status.stx_size > kMaxDwarfFileBytes;
}

// The loss that an error of a request is due to. kNone: a bug, or the system refuses something.
DwarfLoss loss_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kTimeout:
      return DwarfLoss::kTimeLimit;
    case ErrorCode::kUnavailable:
    case ErrorCode::kMalformed:
      return DwarfLoss::kFault;
    case ErrorCode::kTooLarge:
      return DwarfLoss::kMemory;
    case ErrorCode::kBusy:
      return DwarfLoss::kBusy;
    default:
      return DwarfLoss::kNone;
  }
}

void append_lost(std::span<const std::uint64_t> addresses, DwarfLoss loss,
                 std::vector<DwarfAddress>& to) {
  for (const std::uint64_t address : addresses) {
    DwarfAddress& answer = to.emplace_back();
    answer.names = {.address = address, .frames = {}, .source = source_of(loss, false)};
    answer.loss = loss;
  }
}

std::vector<DwarfAddress> lost(std::span<const std::uint64_t> addresses, DwarfLoss loss) {
  std::vector<DwarfAddress> answers;
  append_lost(addresses, loss, answers);
  return answers;
}

// Whether these are the answers for these addresses. Each one was checked when it was decoded.
bool are_for(std::span<const std::uint64_t> addresses, const std::vector<DwarfAddress>& answers) {
  return std::ranges::equal(addresses, answers, {}, {},
                            [](const DwarfAddress& answer) { return answer.names.address; });
}

}  // namespace

Symbolizer::Symbolizer(const SymbolizerLimits& limits, sandbox::Spawn spawn)
    : limits_(limits), spawn_(std::move(spawn)) {
  if (!spawn_) {
    spawn_ = [](int socket) { return sandbox::spawn_child(kSymbolizerChild, socket); };
  }
}

sandbox::Spawn user_symbolizer() {
  return [](int socket) { return sandbox::spawn_child(kUserSymbolizerChild, socket); };
}

bool are_of_root(const DwarfFiles& files) {
  return sandbox::are_of_root(std::array{files.file, files.debug_file, files.alt_file});
}

pid_t Symbolizer::child() const { return client_ ? client_->child() : -1; }

nanoseconds Symbolizer::cpu_time() const { return client_ ? client_->cpu_time() : nanoseconds(); }

void Symbolizer::end_child() {
  if (client_) client_->end_child();
}

Result<void> Symbolizer::ensure_client() {
  if (client_) return client_->ensure_child();
  auto client = sandbox::Client::start(std::string(kSymbolizerChild.name),
                                       {.memory_bytes = kAddressSpaceBytes,
                                        .answer_bytes = symbolizer::kMaxAnswerBytes,
                                        .cpu_time = limits_.cpu_time,
                                        .wall_time = limits_.wall_time,
                                        .idle_time = limits_.idle_time},
                                       spawn_);
  if (!client) return client.error();
  client_ = std::move(*client);
  return {};
}

// libdw has leaked where its memory ran out; malloc may keep what is scattered.
void Symbolizer::end_large_child() {
  if (child() > 0 && private_bytes_of(child()) > limits_.kept_bytes) end_child();
}

milliseconds Symbolizer::cpu_limit_of(const DwarfFiles& files) const {
  return are_of_root(files) ? limits_.root_cpu_time : limits_.cpu_time;
}

Result<std::string> Symbolizer::call(std::uint32_t operation, const DwarfFiles& files, int argument,
                                     nanoseconds cpu_time) {
  sandbox::Request request{.operation = operation};
  std::vector<int> descriptors = {files.file};
  if (files.debug_file >= 0) {
    request.words[0] |= symbolizer::kHasDebugFile;
    descriptors.push_back(files.debug_file);
  }
  if (files.alt_file >= 0) {
    request.words[0] |= symbolizer::kHasAltFile;
    descriptors.push_back(files.alt_file);
  }
  if (argument >= 0) descriptors.push_back(argument);
  // What a user's file takes is not more than the user has left, so that others wait no longer.
  milliseconds limit = cpu_limit_of(files);
  if (!are_of_root(files)) {
    limit = std::min(limit, std::chrono::ceil<milliseconds>(cpu_time) + kTimeToAnswer);
  }
  auto answer = client_->call(request, descriptors, limit);
  if (child() < 0) ++failures_;
  end_large_child();
  return answer;
}

Result<std::string> Symbolizer::call_find_frames(const DwarfFiles& files,
                                                 std::span<const std::uint64_t> addresses,
                                                 nanoseconds cpu_time) {
  const milliseconds limit = cpu_limit_of(files);
  const nanoseconds time =
      std::clamp<nanoseconds>(cpu_time, nanoseconds(0), std::max(limit - kTimeToAnswer, limit / 2));
  const auto argument = sandbox::make_sealed(sandbox::encode(symbolizer::FramesRequest{
      .cpu_time_ns = time.count(), .addresses = {addresses.begin(), addresses.end()}}));
  if (!argument) return argument.error();
  return call(static_cast<std::uint32_t>(Operation::kFindFrames), files, argument->get(), time);
}

Result<AltLink> Symbolizer::find_alt_link(const DwarfFiles& files) {
  if (auto ready = ensure_client(); !ready) return ready.error();
  const auto bytes =
      call(static_cast<std::uint32_t>(Operation::kFindAltLink), files, -1, nanoseconds(0));
  if (!bytes) return bytes.error();
  return sandbox::decode<AltLink>(*bytes);
}

Result<std::vector<DwarfAddress>> Symbolizer::find_frames(const DwarfFiles& files,
                                                          std::span<const std::uint64_t> addresses,
                                                          nanoseconds cpu_time) {
  if (addresses.empty()) return std::vector<DwarfAddress>();
  if (is_too_large(files.file) || is_too_large(files.debug_file) || is_too_large(files.alt_file)) {
    return lost(addresses, DwarfLoss::kTooLarge);
  }
  if (auto ready = ensure_client(); !ready) {
    if (ready.error().code == ErrorCode::kBusy) return lost(addresses, DwarfLoss::kBusy);
    return ready.error();
  }
  const auto asked = addresses.first(std::min(addresses.size(), kMaxDwarfAddresses));
  const auto bytes = call_find_frames(files, asked, cpu_time);
  if (!bytes) {
    const DwarfLoss loss = loss_of(bytes.error());
    if (loss == DwarfLoss::kNone) return bytes.error();
    return lost(addresses, loss);
  }
  auto answers = sandbox::decode<std::vector<DwarfAddress>>(*bytes);
  if (!answers || !are_for(asked, *answers)) {
    end_child();
    ++failures_;
    return lost(addresses, DwarfLoss::kFault);
  }
  append_lost(addresses.subspan(asked.size()), DwarfLoss::kTooMany, *answers);
  return std::move(*answers);
}

}  // namespace profd
