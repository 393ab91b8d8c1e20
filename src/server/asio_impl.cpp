// The one file that compiles Asio's and Beast's non-template parts (BOOST_ASIO_SEPARATE_COMPILATION,
// BOOST_BEAST_SEPARATE_COMPILATION); all others only declare them.

#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
