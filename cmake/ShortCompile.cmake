# Measures that make the compile short; profd_short_compile(TARGET SET) applies all. A source includes what it uses
# all the same, and compiles alone.
#   - A set of precompiled headers: those of the standard library and of Boost that many sources include.
#   - The sources of a folder are compiled together, eight at a time: what a folder shares, above all the templates of
#     Asio and gmock, is then compiled once for eight sources. Names of a folder's unnamed namespaces are therefore unique.
#     -DCMAKE_UNITY_BUILD_BATCH_SIZE=N compiles N together: clang-tidy reads whole folders.
#   - Tests, whose set has gmock, are compiled without optimization: it takes as long as all else. What they test has it.
#     Those whose set has Asio too have no debug information in builds with -g1: a name in a backtrace needs none. The
#     others have it, since oracle.names compares the lines of formats_test.
# -DCMAKE_UNITY_BUILD=OFF, or ccache, compiles each source alone: for who edits one and waits for it.

if(NOT DEFINED CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
  set(CMAKE_UNITY_BUILD OFF)
endif()

function(profd_compile_folders_together target)
  if(DEFINED CMAKE_UNITY_BUILD AND NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  set(batch 8)
  if(CMAKE_UNITY_BUILD_BATCH_SIZE)
    set(batch ${CMAKE_UNITY_BUILD_BATCH_SIZE})
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "sources_${folder}" folder)
    math(EXPR group "0${count_${folder}} / ${batch}")
    math(EXPR count_${folder} "0${count_${folder}} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
  # g++ warns about coroutines with types of an unnamed namespace outside the main file, where those of a unit are not.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

function(profd_optimize_no_tests target set)
  if(set MATCHES gmock)
    target_compile_options(${target} PRIVATE -O0)
  endif()
  if(set STREQUAL asio_gmock)
    target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-g0>)
  endif()
endfunction()

# ccache misses for each source when a precompiled header was compiled anew, and seldom where it was not. g++ 12 takes
# members with an initializer for uninitialized where an aggregate leaves them out.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
  function(profd_short_compile target set)
    profd_compile_folders_together(${target})
    profd_optimize_no_tests(${target} ${set})
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endfunction()
  return()
endif()

function(profd_add_precompiled_headers set)
  cmake_parse_arguments(arg "" "" "LINK;HEADERS" ${ARGN})
  add_library(profd_headers_${set} OBJECT ${PROJECT_SOURCE_DIR}/cmake/headers.cc)
  target_link_libraries(profd_headers_${set} PRIVATE profd_options ${arg_LINK})
  target_compile_options(profd_headers_${set} PRIVATE -pthread)
  profd_optimize_no_tests(profd_headers_${set} ${set})
  target_precompile_headers(profd_headers_${set} PRIVATE ${arg_HEADERS})
endfunction()

# -pthread, since g++ refuses a precompiled header of other options. g++ 12 takes the standard library's own code for an
# overflow where it comes out of a precompiled header. clang, as clang-tidy runs it on these commands, does not know all
# of these warnings.
function(profd_short_compile target set)
  profd_compile_folders_together(${target})
  profd_optimize_no_tests(${target} ${set})
  target_precompile_headers(${target} REUSE_FROM profd_headers_${set})
  target_compile_options(${target} PRIVATE -pthread $<$<CXX_COMPILER_ID:GNU>:-Wno-unknown-warning-option
                         -Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow
                         -Wno-stringop-overread>)
endfunction()

set(standard_headers
  <algorithm> <array> <charconv> <chrono> <cstdint> <cstring> <deque> <filesystem> <fstream> <functional> <map> <memory>
  <optional> <set> <span> <sstream> <string> <string_view> <tuple> <unordered_map> <utility> <vector>
  <boost/system/result.hpp> <boost/unordered/unordered_flat_map.hpp>)
set(json_headers <boost/json/array.hpp> <boost/json/object.hpp> <boost/json/value.hpp>)
set(gmock_headers <gmock/gmock.h> <gtest/gtest.h>)
set(asio_headers
  <boost/asio/as_tuple.hpp> <boost/asio/awaitable.hpp> <boost/asio/co_spawn.hpp> <boost/asio/detached.hpp>
  <boost/asio/io_context.hpp> <boost/asio/local/stream_protocol.hpp> <boost/asio/posix/stream_descriptor.hpp>
  <boost/asio/steady_timer.hpp> <boost/asio/use_awaitable.hpp> <fmt/core.h>)

profd_add_precompiled_headers(standard HEADERS ${standard_headers})
profd_add_precompiled_headers(json LINK profd_boost_json HEADERS ${standard_headers} ${json_headers})
profd_add_precompiled_headers(asio LINK profd_boost_asio fmt::fmt HEADERS ${standard_headers} ${json_headers} ${asio_headers})
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  profd_add_precompiled_headers(gmock LINK profd_boost_json GTest::gmock
                                HEADERS ${standard_headers} ${json_headers} ${gmock_headers})
  profd_add_precompiled_headers(asio_gmock LINK profd_boost_asio fmt::fmt GTest::gmock
                                HEADERS ${standard_headers} ${json_headers} ${asio_headers} ${gmock_headers})
endif()
