// Names that other users and programs can choose, and a profile that has them as they are: the
// product's own writer would repair them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <protozero/pbf_writer.hpp>

namespace profd::test {

struct HostileName {
  std::string raw;
  std::string shown;  // by hand, after formats/base/utf8_text.h
};

inline const std::vector<HostileName>& hostile_names() {
  const auto unchanged = [](const char* name) { return HostileName{.raw = name, .shown = name}; };
  static const std::vector<HostileName> kNames = {
      unchanged("</script><script>alert(1)</script>"),
      unchanged("<!--<script>"),
      unchanged("-->"),
      unchanged("]]>"),
      unchanged("<img src=x onerror=alert(1)>"),
      unchanged("\"><svg onload=alert(1)>"),
      unchanged("'onclick='alert(1)"),
      unchanged("&lt&#0&amp"),
      unchanged("\\u003c\\\""),
      unchanged("${alert(1)}`"),
      {.raw = "\x1b[31mred\x1b[0m", .shown = "?[31mred?[0m"},
      {.raw = "bell\x07\x7f", .shown = "bell??"},
      {.raw = "\xc2\x9b"
              "32mgreen",
       .shown = "?32mgreen"},
      {.raw = "a\xe2\x80\xae"
              "gnp.exe",
       .shown = "a?gnp.exe"},
      {.raw = "\xff\xfe\xc3(", .shown = "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd("},
      {.raw = "\xe2\x80\xa8line\xe2\x80\xa9", .shown = "?line?"},
      {.raw = std::string(std::size_t{1} << 20, 'x'), .shown = std::string(1021, 'x') + "..."},
  };
  return kNames;
}

inline constexpr std::int64_t kSamplesOfHostileName = 10;

// A profile.proto, not packed. Each name is that of a unit, a command, a user, an object and a
// source file, of samples of their own in a function "work_NUMBER".
inline std::string hostile_profile() {
  std::vector<std::string> texts{"", "samples", "count", "pid", "comm", "unit", "user"};
  std::string bytes;
  protozero::pbf_writer profile(bytes);
  for (const protozero::pbf_tag_type tag : {1U, 11U}) {  // the type of the values, of the period
    protozero::pbf_writer type(profile, tag);
    type.add_int64(1, 1);
    type.add_int64(2, 2);
  }
  for (const HostileName& name : hostile_names()) {
    const std::uint64_t id = texts.size();
    const auto text = static_cast<std::int64_t>(id);
    texts.push_back(name.raw);
    texts.push_back("work_" + std::to_string(id));
    {
      protozero::pbf_writer sample(profile, 2);
      sample.add_packed_uint64(1, &id, &id + 1);
      sample.add_packed_int64(2, &kSamplesOfHostileName, &kSamplesOfHostileName + 1);
      for (const std::int64_t key : {4, 5, 6}) {
        protozero::pbf_writer label(sample, 3);
        label.add_int64(1, key);
        label.add_int64(2, text);
      }
      protozero::pbf_writer pid(sample, 3);
      pid.add_int64(1, 3);
      pid.add_int64(3, 100 + text);
    }
    {
      protozero::pbf_writer mapping(profile, 3);
      mapping.add_uint64(1, id);
      mapping.add_int64(5, text);
    }
    {
      protozero::pbf_writer location(profile, 4);
      location.add_uint64(1, id);
      location.add_uint64(2, id);
      protozero::pbf_writer line(location, 4);
      line.add_uint64(1, id);
      line.add_int64(2, 3);
    }
    protozero::pbf_writer function(profile, 5);
    function.add_uint64(1, id);
    function.add_int64(2, text + 1);
    function.add_int64(4, text);
  }
  for (const std::string& text : texts) profile.add_string(6, text);
  return bytes;
}

}  // namespace profd::test
