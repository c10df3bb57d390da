#include "formats/jit/runtimes.h"

#include <algorithm>
#include <array>

namespace profd {
namespace {

constexpr std::string_view kRubyRemedy =
    "ruby --yjit --yjit-perf names the code that YJIT compiles";
constexpr std::string_view kPhpRemedy =
    "php -d opcache.jit_debug=32 -d opcache.jit=function -d opcache.jit_buffer_size=64M; on the "
    "command line also -d opcache.enable_cli=1";

// A prefix that starts with another one comes before it.
constexpr auto kRuntimes = std::to_array<Runtime>({
    {"Java", "libjvm.so", true,
     "'profctl record --ask-runtime --pid PID', for Java 17 and later, or java "
     "-agentpath:libperf-jvmti.so; for complete stacks, add -XX:+PreserveFramePointer"},
    {"Node.js", "node", true,
     "node --perf-prof --perf-basic-prof: the first option gives lines and code, the second gives "
     "names at once"},
    {"Deno", "deno", true, "deno run --v8-flags=--perf-prof"},
    {"Bun", "bun", true, "BUN_JSC_useJITDump=1"},
    {".NET", "libcoreclr.so", true, "DOTNET_PerfMapEnabled=1"},
    {"Erlang", "beam.smp", true, "erl +JPperf true, or ERL_FLAGS='+JPperf true'"},
    {"LuaJIT", "luajit", true, ""},
    {"LuaJIT", "libluajit", true, ""},
    {"PHP", "php", false, "", true},
    {"PHP", "libphp", false, "", true},
    {"PHP", "opcache.so", false, kPhpRemedy},
    {"Python", "python", false, "", true},
    {"Python", "libpython", false, "", true},
    {"Ruby", "ruby", false, kRubyRemedy},
    {"Ruby", "libruby", false, kRubyRemedy},
    {"Perl", "perl", false, ""},
    {"Perl", "libperl", false, ""},
});

}  // namespace

const Runtime* runtime_of_name(std::string_view name) {
  const auto* const found = std::ranges::find(kRuntimes, name, &Runtime::name);
  return found == kRuntimes.end() ? nullptr : found;
}

const Runtime* runtime_of_file(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const auto* const found = std::ranges::find_if(
      kRuntimes, [name](const Runtime& runtime) { return name.starts_with(runtime.file_prefix); });
  return found == kRuntimes.end() ? nullptr : found;
}

std::string runtime_label(std::string_view name) {
  std::string label;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') label.push_back(static_cast<char>(c - 'A' + 'a'));
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) label.push_back(c);
  }
  return label;
}

}  // namespace profd
