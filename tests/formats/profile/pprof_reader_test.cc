#include "formats/profile/pprof_reader.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/gzip.h"
#include "formats/profile/pprof_writer.h"
#include "tests/formats/profile/pprof_oracles.h"

namespace profd {
namespace {

using test::protoc_encoded;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

// protoc's text form of a profile that other parts are added to.
const std::string kTexts =
    R"(string_table: ["", "samples", "count", "f", "g", "/lib/a.so", "key", "value"]
)";
const std::string kType = "sample_type { type: 1 unit: 2 }\n";
const std::string kTables = R"(
mapping { id: 1 memory_start: 4096 memory_limit: 8192 filename: 5 }
function { id: 1 name: 3 } function { id: 2 name: 4 }
location { id: 1 mapping_id: 1 address: 4100 line { function_id: 1 line: 7 column: 9 } }
location { id: 2 line { function_id: 2 } line { function_id: 1 } }
)";
const std::string kSample = "sample { location_id: [1, 2] value: 5 }\n";
const std::string kWhole = kTexts + kType + kTables + kSample;

PprofRefusal refusal_of(std::string_view file, std::size_t max_bytes = kMaxPprofBytes) {
  const PprofResult<PprofProfile> profile = decode_pprof(file, max_bytes);
  EXPECT_FALSE(profile);
  return profile ? PprofRefusal::kCount : profile.error();
}

std::string reencoded(std::string_view file) {
  const PprofResult<PprofProfile> profile = decode_pprof(file);
  EXPECT_TRUE(profile) << name_of(profile.error());
  return profile ? encode_pprof(*profile) : "";
}

TEST(PprofReader, ReadsBackWhatTheWriterWrote) {
  PprofProfile written = test::small_pprof();
  written.own_data = std::string("own\0data", 8);
  const PprofResult<PprofProfile> read = decode_pprof(encode_pprof_gzip(written));
  ASSERT_TRUE(read) << name_of(read.error());
  EXPECT_EQ(read->own_data, written.own_data);
  EXPECT_EQ(read->period, 10000000);
  EXPECT_EQ(read->time_ns, 1700000000000000000);
  EXPECT_EQ(read->duration_ns, 60000000000);
  EXPECT_EQ(read->default_sample_type, "cpu");
  EXPECT_EQ(read->period_type, (PprofValueType{"cpu", "nanoseconds"}));
  EXPECT_THAT(read->comments, ElementsAre("profd 0.1.0 on host"));
  EXPECT_EQ(encode_pprof(*read), encode_pprof(written));
}

TEST(PprofReader, ReadsFieldsInAnyOrder) {
  const std::string texts = protoc_encoded(kTexts);
  const std::string type = protoc_encoded(kType);
  const std::string tables = protoc_encoded(kTables);
  const std::string sample = protoc_encoded(kSample);
  const std::string expected = reencoded(texts + type + tables + sample);
  EXPECT_THAT(test::protoc_decoded(expected), HasSubstr("value: 5"));
  EXPECT_EQ(reencoded(sample + tables + type + texts), expected);
  EXPECT_EQ(reencoded(tables + texts + sample + type), expected);
}

TEST(PprofReader, SkipsColumnsAndUnknownFields) {
  const std::string plain = reencoded(protoc_encoded(kWhole));
  EXPECT_EQ(reencoded(protoc_encoded(kWhole + "drop_frames: 3 keep_frames: 4 doc_url: 5")), plain);
  for (const std::string& unknown : {std::string("\xf8\x07\x05"),
                                     std::string("\xf9\x07"
                                                 "12345678"),
                                     std::string("\xfd\x07"
                                                 "1234"),
                                     std::string("\xfa\x07\x02xy")}) {
    EXPECT_EQ(reencoded(unknown + protoc_encoded(kWhole) + unknown), plain);
  }
}

TEST(PprofReader, ReadsNumbersThatAreNotPacked) {
  const std::string parts = kTexts + kType + "function { id: 1 name: 3 } comment: [6, 7]" +
                            "location { id: 1 line { function_id: 1 } }" +
                            "sample { location_id: [1, 1, 1] value: [5] }";
  const std::string packed = protoc_encoded(parts);
  const std::string unpacked = protoc_encoded(parts, "UnpackedProfile");
  EXPECT_NE(packed, unpacked);
  EXPECT_EQ(reencoded(unpacked), reencoded(packed));
}

TEST(PprofReader, ReadsIdsWithGapsInAnyOrder) {
  const std::string gaps = kTexts + kType + R"(
    mapping { id: 18446744073709551615 memory_start: 4096 memory_limit: 8192 filename: 5 }
    function { id: 900 name: 4 } function { id: 7 name: 3 }
    location { id: 3 line { function_id: 900 } line { function_id: 7 } }
    location { id: 2 mapping_id: 18446744073709551615 address: 4100
               line { function_id: 7 line: 7 } }
    sample { location_id: [2, 3] value: 5 })";
  EXPECT_EQ(reencoded(protoc_encoded(gaps)), reencoded(protoc_encoded(kWhole)));
}

TEST(PprofReader, ReadsIdsOfOneToThreeBytes) {
  std::string text = kTexts + kType;
  for (int id = 1; id <= 16390; ++id) text += "location { id: " + std::to_string(id) + " }";
  text += "sample { location_id: [1, 16390, 127, 128, 16383, 16384, 2] value: 5 }";
  const std::string bytes = protoc_encoded(text);
  const PprofResult<PprofTables> tables = read_pprof_tables(bytes);
  ASSERT_TRUE(tables) << name_of(tables.error());
  EXPECT_THAT(tables->frames, ElementsAre(0, 16389, 126, 127, 16382, 16383, 1));
}

TEST(PprofReader, ReadsIdsWithBytesThatSayNothing) {
  const std::string whole = protoc_encoded(kWhole);
  const std::string padded("\x12\x0b\x0a\x06\x81\x00\x82\x80\x00\x01\x12\x01\x05", 13);
  const std::string bytes = whole + padded;
  const PprofResult<PprofTables> tables = read_pprof_tables(bytes);
  ASSERT_TRUE(tables) << name_of(tables.error());
  EXPECT_THAT(tables->frames, ElementsAre(0, 1, 0, 1, 0));
}

TEST(PprofReader, RefusesAListOfIdsThatIsCut) {
  const std::string whole = protoc_encoded(kWhole);
  for (const std::string sample :
       {"\x12\x03\x0a\x01\x81", "\x12\x04\x0a\x02\x01\x81", "\x12\x04\x0a\x02\x81\x81"}) {
    EXPECT_EQ(refusal_of(whole + sample), PprofRefusal::kBadProtobuf) << sample.size();
  }
}

TEST(PprofReader, AddsUpEqualSamplesAndRepairsTexts) {
  const std::string twice = protoc_encoded(kWhole + kSample);
  EXPECT_THAT(test::protoc_decoded(reencoded(twice)), HasSubstr("value: 10"));
  std::string changed = protoc_encoded(kWhole);
  changed.replace(changed.find("/lib/a.so"), 4, "\xff\xff\xff\xff");
  const auto read = decode_pprof(changed);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text(read->mappings()[0].file), "\uFFFD\uFFFD\uFFFD\uFFFD/a.so");
}

TEST(PprofReader, ReadsNumericLabelsWithAndWithoutUnit) {
  const auto read = decode_pprof(protoc_encoded(
      kTexts + kType + kTables +
      "sample { value: 1 label { key: 6 num: -3 } label { key: 7 num: 4 num_unit: 2 } }"));
  ASSERT_TRUE(read);
  const auto labels = read->labels(read->samples()[0].labels);
  ASSERT_EQ(labels.size(), 2U);
  EXPECT_EQ(labels[0].number + labels[1].number, 1);
  EXPECT_EQ(read->text(std::max(labels[0].unit, labels[1].unit)), "count");
}

// The reader decodes the labels of a run of samples once.
TEST(PprofReader, ReadsTheLabelsOfEachSampleWhereverTheyStand) {
  const std::string a = "sample { location_id: 1 value: 1 label { key: 6 str: 7 } }\n";
  const std::string b = "sample { location_id: 2 value: 2 label { key: 6 str: 7 } }\n";
  const std::string c = "sample { location_id: 2 value: 3 label { key: 6 str: 5 } }\n";
  const std::string none = "sample { location_id: 2 value: 4 }\n";
  const std::string file = protoc_encoded(kTexts + kType + kTables + a + b + c + b + none + c + a);
  const auto tables = read_pprof_tables(file);
  ASSERT_TRUE(tables);
  std::vector<std::string> texts;
  for (const PprofTables::Sample& sample : tables->samples) {
    texts.emplace_back("-");
    for (const PprofLabel& label : tables->labels_of(sample)) {
      texts.back() = tables->texts[label.text];
    }
  }
  EXPECT_THAT(texts,
              ElementsAre("value", "value", "/lib/a.so", "value", "-", "/lib/a.so", "value"));
  EXPECT_EQ(tables->samples[0].first_label, tables->samples[1].first_label);
}

// Finds: one that the next sample gets with the labels of the run, or that is forgotten there, and
// labels of another unit, or with a negative number, that count.
TEST(PprofReader, ReadsTheLongestBlockOfEachSampleWhereverItStands) {
  const std::string texts =
      R"(string_table: ["", "samples", "count", "f", "g", "/lib/a.so", "key", "value", "longest",
                        "nanoseconds", "bytes"] )";
  const std::string start = "sample { location_id: 1 value: 1 ";
  const std::string key = "label { key: 6 str: 7 } ";
  const auto longest = [](int number, int unit = 9) {
    return "label { key: 8 num: " + std::to_string(number) + " num_unit: " + std::to_string(unit) +
           " } ";
  };
  const std::string file =
      protoc_encoded(texts + kType + kTables + start + key + "}" + start + longest(5) + key + "}" +
                     start + key + "}" + start + key + longest(7) + "}" + start + key + longest(7) +
                     "}" + start + longest(9) + key + "}" + start + longest(4) + "}" + start +
                     longest(-3) + "}" + start + longest(2, 10) + "}" + start + "}");
  const auto tables = read_pprof_tables(file);
  ASSERT_TRUE(tables);
  EXPECT_THAT(tables->longest, ElementsAre(0, 5, 0, 7, 7, 9, 4, 0, 0, 0));
  std::vector<std::size_t> labels;
  labels.reserve(tables->samples.size());
  for (const PprofTables::Sample& sample : tables->samples) labels.push_back(sample.label_count);
  EXPECT_THAT(labels, ElementsAre(1, 1, 1, 1, 1, 1, 0, 1, 1, 0));
  std::vector<std::int64_t> passed;
  const auto result =
      read_pprof_samples(file, [&](const PprofTables&, const PprofPackedSample& sample) {
        passed.push_back(sample.longest);
        EXPECT_EQ(sample.labels.size(), labels.at(passed.size() - 1));
      });
  ASSERT_TRUE(result);
  EXPECT_EQ(passed, tables->longest);
  const auto read = decode_pprof(file);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->samples().size(), 4U) << "with the key, without, and with each other label";
  const std::string again = encode_pprof(*read);
  EXPECT_EQ(reencoded(again), again);
}

TEST(PprofReader, AFileWithoutLongestBlocksHasNone) {
  const std::string file = protoc_encoded(kWhole);
  const auto tables = read_pprof_tables(file);
  ASSERT_TRUE(tables);
  EXPECT_TRUE(tables->longest.empty());
  EXPECT_EQ(tables->longest_of(0), 0);
  EXPECT_EQ(reencoded(file).find("longest"), std::string::npos);
}

// A value between two labels, and one after them, which then are not the end of their sample.
TEST(PprofReader, ReadsLabelsBeforeOtherFields) {
  const std::string tables = protoc_encoded(kTexts + kType + kTables);
  const auto sample = [](std::string_view fields) {
    return std::string("\x12") + static_cast<char>(fields.size()) + std::string(fields);
  };
  const std::string label("\x1a\x04\x08\x06\x10\x07", 6);
  const std::string other("\x1a\x04\x08\x06\x10\x05", 6);
  const std::string frame("\x08\x01", 2);
  const std::string value("\x10\x05", 2);
  const std::string usual = reencoded(tables + sample(frame + value + label + other));
  for (const std::string& one : {label + frame + other + value, label + other + value + frame,
                                 frame + label + value + other, label + frame + value + other}) {
    EXPECT_EQ(reencoded(tables + sample(one)), usual);
    const auto twice = decode_pprof(tables + sample(one) + sample(one));
    ASSERT_TRUE(twice);
    ASSERT_EQ(twice->samples().size(), 1U);
    EXPECT_EQ(twice->values(0)[0], 10);
  }
}

// The samples that are passed on one by one, beside those of the tables.
void expect_equal_samples(const std::string& file) {
  const auto tables = read_pprof_tables(file);
  ASSERT_TRUE(tables);
  std::size_t next = 0;
  const auto passed =
      read_pprof_samples(file, [&](const PprofTables& of, const PprofPackedSample& sample) {
        ASSERT_LT(next, tables->samples.size());
        const PprofTables::Sample& expected = tables->samples[next];
        EXPECT_EQ(of.locations.size(), tables->locations.size());
        EXPECT_TRUE(std::ranges::equal(sample.labels, tables->labels_of(expected)));
        EXPECT_TRUE(std::ranges::equal(sample.values, tables->values_of(next)));
        EXPECT_EQ(sample.longest, tables->longest_of(next));
        std::vector<std::uint32_t> frames;
        std::uint32_t number = 0;
        unsigned shift = 0;
        for (const char c : sample.frames) {
          const auto byte = static_cast<unsigned char>(c);
          number |= (byte & 0x7fU) << shift;
          shift += 7;
          if (byte >= 0x80) continue;
          frames.push_back(number - 1);
          number = shift = 0;
        }
        EXPECT_TRUE(std::ranges::equal(frames, tables->frames_of(expected)));
        ++next;
      });
  ASSERT_TRUE(passed);
  EXPECT_EQ(next, tables->samples.size());
  EXPECT_TRUE(passed->samples.empty());
}

TEST(PprofReader, PassesOnSamplesWithoutKeepingThem) {
  const std::string parts = kTexts + kType + kTables +
                            "sample { location_id: [1, 2, 1] value: [5] }"
                            "sample { value: 2 label { key: 6 str: 7 } }"
                            "sample { location_id: 1 value: 1 label { key: 6 str: 7 } }"
                            "sample { location_id: 2 value: 3 label { key: 6 str: 5 } }"
                            "sample { location_id: 2 value: 4 }";
  const std::string packed = protoc_encoded(parts);
  expect_equal_samples(packed);
  expect_equal_samples(protoc_encoded(kTexts + kType + "function { id: 1 name: 3 }" +
                                          "location { id: 1 line { function_id: 1 } }" +
                                          "sample { location_id: [1, 1, 1] value: [5] }",
                                      "UnpackedProfile"));
  expect_equal_samples(protoc_encoded(kSample) + protoc_encoded(kTexts + kType + kTables));
  // Ids that are not in order, ids in two lists, and ids with bytes that say nothing.
  expect_equal_samples(protoc_encoded(kTexts + kType +
                                      "function { id: 7 name: 3 } location { id: 9 } "
                                      "location { id: 2 line { function_id: 7 } }"
                                      "sample { location_id: [2, 9, 9] value: 5 }"));
  expect_equal_samples(packed + std::string("\x12\x09\x0a\x02\x01\x02\x0a\x01\x02\x10\x05", 11));
  expect_equal_samples(packed +
                       std::string("\x12\x0b\x0a\x06\x81\x00\x82\x80\x00\x01\x12\x01\x05", 13));
}

TEST(PprofReader, RefusesASampleThatIsPassedOnWithAnUnknownLocation) {
  const auto passed = read_pprof_samples(
      protoc_encoded(kTexts + kType + kTables + "sample { location_id: [1, 3] value: 5 }"),
      [](const PprofTables&, const PprofPackedSample&) { FAIL() << "passed on"; });
  ASSERT_FALSE(passed);
  EXPECT_EQ(passed.error(), PprofRefusal::kUnknownId);
}

// The end that neighbours have in common is checked once.
TEST(PprofReader, RefusesAnUnknownLocationBeforeKnownOnes) {
  const std::string known = kTexts + kType + kTables + "sample { location_id: [1, 2, 1] value: 5 }";
  EXPECT_TRUE(
      read_pprof_samples(protoc_encoded(known + "sample { location_id: [2, 2, 1] value: 5 }"),
                         [](const PprofTables&, const PprofPackedSample&) {}));
  for (const char* ids : {"[3, 2, 1]", "[129, 2, 1]", "[1, 3, 1]", "[1, 2, 129]", "[3, 1, 2, 1]"}) {
    const auto passed =
        read_pprof_samples(protoc_encoded(known + "sample { location_id: " + ids + " value: 5 }"),
                           [](const PprofTables&, const PprofPackedSample&) {});
    ASSERT_FALSE(passed) << ids;
    EXPECT_EQ(passed.error(), PprofRefusal::kUnknownId);
  }
}

TEST(PprofReader, NamesLocationsWithoutLines) {
  const auto read = decode_pprof(protoc_encoded(
      kTexts + kType + "mapping { id: 1 filename: 5 } location { id: 1 mapping_id: 1 address: 8 }" +
      "sample { location_id: 1 value: 1 }"));
  ASSERT_TRUE(read);
  EXPECT_THAT(test::protoc_decoded(encode_pprof(*read)), HasSubstr("string_table: \"[a.so]\""));
}

struct Damage {
  std::string name;
  std::string text;
  PprofRefusal refusal;
};

TEST(PprofReader, RefusesByName) {
  using enum PprofRefusal;
  const std::vector<Damage> damages = {
      {"no string table", kType, kNoTexts},
      {"first text not empty", R"(string_table: ["a", ""])", kNoTexts},
      {"type beyond texts", kTexts + "sample_type { type: 8 }", kBadText},
      {"negative type", kTexts + "sample_type { type: -1 }", kBadText},
      {"period type beyond texts", kTexts + "period_type { unit: 8 }", kBadText},
      {"comment beyond texts", kTexts + "comment: 8", kBadText},
      {"default type beyond texts", kTexts + "default_sample_type: 8", kBadText},
      {"mapping's file beyond texts", kTexts + "mapping { id: 1 filename: 8 }", kBadText},
      {"build id beyond texts", kTexts + "mapping { id: 1 build_id: 8 }", kBadText},
      {"name beyond texts", kTexts + "function { id: 1 name: 8 }", kBadText},
      {"system name beyond texts", kTexts + "function { id: 1 system_name: 8 }", kBadText},
      {"file beyond texts", kTexts + "function { id: 1 filename: 8 }", kBadText},
      {"key beyond texts", kWhole + "sample { value: 1 label { key: 8 num: 1 } }", kBadText},
      {"text beyond texts", kWhole + "sample { value: 1 label { key: 6 str: 8 } }", kBadText},
      {"unit beyond texts", kWhole + "sample { value: 1 label { key: 6 num_unit: 8 } }", kBadText},
      {"mapping 0", kTexts + "mapping { id: 0 }", kBadId},
      {"function 0", kTexts + "function { id: 0 }", kBadId},
      {"location 0", kTexts + "location { id: 0 }", kBadId},
      {"mapping twice", kTexts + "mapping { id: 3 } mapping { id: 3 }", kBadId},
      {"function twice", kWhole + "function { id: 1 }", kBadId},
      {"location twice", kWhole + "location { id: 2 }", kBadId},
      {"unknown mapping", kWhole + "location { id: 3 mapping_id: 2 }", kUnknownId},
      {"unknown function", kWhole + "location { id: 3 line { function_id: 3 } }", kUnknownId},
      {"line without function", kWhole + "location { id: 3 line { line: 3 } }", kUnknownId},
      {"unknown location", kWhole + "sample { location_id: 3 value: 1 }", kUnknownId},
      {"location 0 in a sample", kWhole + "sample { location_id: 0 value: 1 }", kUnknownId},
      {"no value", kWhole + "sample { location_id: 1 }", kWrongValueCount},
      {"two values", kWhole + "sample { value: [1, 2] }", kWrongValueCount},
      {"no types", kTexts + "sample { value: 1 }", kWrongValueCount},
      {"no types, no values", kTexts + "sample { }", kWrongValueCount},
  };
  EXPECT_EQ(reencoded(protoc_encoded(kWhole)).empty(), false);
  for (const Damage& damage : damages) {
    EXPECT_EQ(name_of(refusal_of(protoc_encoded(damage.text))), name_of(damage.refusal))
        << damage.name;
  }
}

TEST(PprofReader, RefusesFieldsOfOtherTypes) {
  const std::string whole = protoc_encoded(kWhole);
  for (const std::string field :
       {"\x08\x01", "\x10\x01", "\x18\x01", "\x20\x01", "\x28\x01", "\x30\x01", "\x4a\x01x",
        "\x52\x01x", "\x58\x01", "\x62\x01x", "\x72\x01x"}) {
    EXPECT_EQ(refusal_of(whole + field), PprofRefusal::kWrongType) << int{field[0]};
  }
  EXPECT_EQ(refusal_of(whole + std::string("\x12\x02\x18\x01", 4)), PprofRefusal::kWrongType);
  EXPECT_EQ(refusal_of(whole + std::string("\x6d"
                                           "1234",
                                           5)),
            PprofRefusal::kWrongType);
}

TEST(PprofReader, RefusesWhatIsNoProtobuf) {
  const std::string whole = protoc_encoded(kWhole);
  EXPECT_EQ(refusal_of(""), PprofRefusal::kNoTexts);
  EXPECT_EQ(refusal_of("#!/bin/sh\necho\n"), PprofRefusal::kBadProtobuf);
  for (const std::string tail :
       {"\x0a", "\x0a\x05x", "\x07", "\x48", "\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}) {
    EXPECT_EQ(refusal_of(whole + tail), PprofRefusal::kBadProtobuf) << tail.size();
  }
}

// No cut leads to a crash; where one falls between two fields, what is left is a smaller profile.
TEST(PprofReader, ReadsOrRefusesEachCutOfAFile) {
  const std::string bytes = encode_pprof(test::small_pprof());
  std::size_t refused = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    if (!decode_pprof(std::string_view(bytes).substr(0, size))) ++refused;
  }
  EXPECT_GT(refused, bytes.size() / 2);
}

TEST(PprofReader, RefusesTwoProfilesOneAfterTheOther) {
  const std::string file = encode_pprof_gzip(test::small_pprof());
  EXPECT_EQ(refusal_of(file + file), PprofRefusal::kConcatenated);
  const std::string plain = encode_pprof(test::small_pprof());
  EXPECT_EQ(refusal_of(plain + plain), PprofRefusal::kConcatenated);
}

TEST(PprofReader, ReadsOneProfileInSeveralGzipMembers) {
  const std::string plain = encode_pprof(test::small_pprof());
  const std::string file = pack_gzip(plain.substr(0, 100), 1) + pack_gzip(plain.substr(100), 9);
  EXPECT_EQ(reencoded(file), plain);
}

TEST(PprofReader, RefusesGzipThatIsMalformedOrCut) {
  const std::string file = encode_pprof_gzip(test::small_pprof());
  EXPECT_EQ(refusal_of(file + "tail"), PprofRefusal::kBadGzip);
  EXPECT_EQ(refusal_of(file.substr(0, file.size() - 1)), PprofRefusal::kCutGzip);
  EXPECT_EQ(refusal_of(file.substr(0, file.size() / 2)), PprofRefusal::kCutGzip);
  std::string wrong_checksum = file;
  wrong_checksum[file.size() - 8] ^= 1;
  EXPECT_EQ(refusal_of(wrong_checksum), PprofRefusal::kBadGzip);
  std::string flipped = file;
  flipped[file.size() / 2] ^= 1;  // which may hide where the data end
  EXPECT_THAT(refusal_of(flipped), AnyOf(PprofRefusal::kBadGzip, PprofRefusal::kCutGzip));
}

TEST(PprofReader, HoldsItsLimits) {
  const std::string plain = encode_pprof(test::small_pprof());
  const std::string packed = encode_pprof_gzip(test::small_pprof());
  EXPECT_TRUE(decode_pprof(plain, plain.size()));
  EXPECT_TRUE(decode_pprof(packed, plain.size()));
  EXPECT_EQ(refusal_of(plain, plain.size() - 1), PprofRefusal::kTooLarge);
  EXPECT_EQ(refusal_of(packed, plain.size() - 1), PprofRefusal::kTooLarge);
  std::string types(2 * (kMaxPprofTypes + 1), '\0');
  for (std::size_t i = 0; i < types.size(); i += 2) types[i] = '\x0a';
  EXPECT_EQ(refusal_of(types), PprofRefusal::kTooManyEntries);
}

TEST(PprofReader, HasANameAndATextForEachRefusal) {
  for (std::size_t i = 0; i < kPprofRefusals; ++i) {
    const auto refusal = static_cast<PprofRefusal>(i);
    EXPECT_FALSE(name_of(refusal).empty()) << i;
    EXPECT_THAT(error_of(refusal).message, HasSubstr("could not read the pprof profile: ")) << i;
  }
  EXPECT_EQ(name_of(PprofRefusal::kConcatenated), "concatenated");
  EXPECT_EQ(error_of(PprofRefusal::kTooLarge).code, ErrorCode::kTooLarge);
  EXPECT_EQ(error_of(PprofRefusal::kBadId).code, ErrorCode::kMalformed);
}

}  // namespace
}  // namespace profd
