# Boost's header-only libraries, compiled once: profd_boost_json, profd_boost_asio with Beast, and profd_boost_ssl.

add_library(profd_boost_json STATIC cmake/boost/json.cc)
target_link_libraries(profd_boost_json PUBLIC profd_options)

add_library(profd_boost_asio STATIC cmake/boost/asio.cc cmake/boost/beast.cc)
target_compile_definitions(profd_boost_asio PUBLIC BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION)
target_link_libraries(profd_boost_asio PUBLIC profd_options)

# TLS, for profctl alone: the daemon does not link OpenSSL.
add_library(profd_boost_ssl STATIC cmake/boost/asio_ssl.cc)
target_link_libraries(profd_boost_ssl PUBLIC profd_boost_asio OpenSSL::SSL)
