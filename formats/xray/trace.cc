#include "formats/xray/trace.h"

#include <algorithm>
#include <utility>

#include <boost/json/string.hpp>

#include "formats/base/json_text.h"

namespace profd::xray {
namespace {

constexpr std::size_t kFullBytes = std::size_t{64} << 10;
constexpr double kMaxNs = 1e18;
// Room for calls that began before the first record.
constexpr std::uint64_t kBeforeNs = 1000;

std::string json_quoted(std::string_view text) {
  return json_text(boost::json::value(boost::json::string(text)));
}

// Microseconds with three decimals.
void append_time(std::string& text, std::uint64_t ns) {
  text.append(std::to_string(ns / 1000)).append(".");
  text.append(std::to_string(1000 + ns % 1000), 1);
}

}  // namespace

TraceWriter::TraceWriter(const Options& options, NameOf name_of, Sink sink)
    : options_(options), name_of_(std::move(name_of)), sink_(std::move(sink)) {
  text_.reserve(2 * kFullBytes);
  text_ = R"({"displayTimeUnit":"ns","traceEvents":[)";
}

std::uint64_t TraceWriter::ns_of(std::uint64_t ticks) const {
  const std::uint64_t since = ticks - std::min(ticks, options_.first_ticks);
  return kBeforeNs + static_cast<std::uint64_t>(
                         std::min(static_cast<double>(since) * options_.ns_per_tick + 0.5, kMaxNs));
}

const std::string& TraceWriter::json_name_of(std::uint32_t function) {
  const auto [found, added] = names_.try_emplace(function);
  if (added) found->second = json_quoted(name_of_(function));
  return found->second;
}

void TraceWriter::begin_event(char phase, ThreadId thread, std::uint64_t ns) {
  end_call();
  if (text_.size() >= kFullBytes) {
    sink_(text_);
    text_.clear();
  }
  if (is_first_ || thread != thread_) {
    thread_ = thread;
    thread_json_ = ",\"pid\":" + std::to_string(thread.process) +
                   ",\"tid\":" + std::to_string(thread.thread) + ",\"ts\":";
  }
  text_.append(is_first_ ? "\n{\"ph\":\"" : ",\n{\"ph\":\"").push_back(phase);
  text_.append("\"").append(thread_json_);
  append_time(text_, ns);
  is_first_ = false;
}

// The text of a call stays open until the next event, since its arguments may follow.
void TraceWriter::end_call() {
  if (!is_open_) return;
  text_.append(arguments_ != 0 ? "}}" : "}");
  is_open_ = false;
  arguments_ = 0;
}

void TraceWriter::on_enter(ThreadId thread, std::uint32_t function, std::uint64_t ticks) {
  begin_event('B', thread, ns_of(ticks));
  text_.append(",\"name\":").append(json_name_of(function));
  is_open_ = true;
}

// The value is a string, since not every reader keeps 64 bits of a number.
void TraceWriter::on_argument(ThreadId /*thread*/, std::uint64_t value) {
  if (!is_open_) return;
  text_.append(arguments_ == 0 ? ",\"args\":{\"arg" : ",\"arg");
  text_.append(std::to_string(arguments_++)).append("\":\"");
  text_.append(std::to_string(value)).append("\"");
}

void TraceWriter::on_exit(ThreadId thread, std::uint32_t /*function*/, std::uint64_t ticks) {
  begin_event('E', thread, ns_of(ticks));
  text_.append("}");
}

// Each outer call starts a nanosecond earlier, so that readers nest the calls correctly.
void TraceWriter::on_late_root(ThreadId thread, std::uint32_t function, std::uint64_t first_ticks,
                               std::uint64_t ticks, std::uint64_t outer) {
  const std::uint64_t first = ns_of(first_ticks);
  const std::uint64_t start = first - std::min(first, outer);
  begin_event('X', thread, start);
  text_.append(",\"dur\":");
  append_time(text_, ns_of(ticks) - std::min(ns_of(ticks), start));
  text_.append(",\"name\":").append(json_name_of(function));
  text_.append(R"(,"args":{"start":"before the records"}})");
}

void TraceWriter::on_event(ThreadId thread, const Event& event) {
  begin_event('i', thread, ns_of(event.ticks));
  text_.append(event.is_typed ? R"(,"s":"t","name":"typed event","args":{"type":)"
                              : R"(,"s":"t","name":"custom event","args":{)");
  if (event.is_typed) text_.append(std::to_string(event.type)).append(",");
  text_.append("\"bytes\":").append(std::to_string(event.payload_bytes));
  text_.append(",\"payload\":").append(json_quoted(event.payload)).append("}}");
}

void TraceWriter::finish() {
  end_call();
  text_.append("\n]}\n");
  sink_(text_);
  text_.clear();
}

}  // namespace profd::xray
