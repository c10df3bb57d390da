// Asio's definitions for TLS, which profctl alone has.

#include <boost/asio/ssl/impl/src.hpp>
