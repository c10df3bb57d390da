# Boost's header-only libraries, compiled once: profd_boost_json, and profd_boost_asio with Beast.

add_library(profd_boost_json STATIC cmake/boost/json.cc)
target_link_libraries(profd_boost_json PUBLIC profd_options)

add_library(profd_boost_asio STATIC cmake/boost/asio.cc cmake/boost/beast.cc)
target_compile_definitions(profd_boost_asio PUBLIC BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION)
target_link_libraries(profd_boost_asio PUBLIC profd_options)
