"""Reading Ivy's words and telling it about proxies."""

from surescale.services.local_stack.ivy import JarCoordinates, missing_in, proxy_options, reason_in

NOT_FOUND = """
		::          UNRESOLVED DEPENDENCIES         ::
		:: org.example#left;1.0: not found
		:: org.example#right;2.0: not found
:::: ERRORS
	Server access error at url http://127.0.0.1:9/left-1.0.jar (java.net.ConnectException: Connection refused)
"""
FAILED = """
		[FAILED     ] org.example#left;1.0!left.jar: impossible to get artifacts when data has not been loaded (0ms)
		:: org.example#left;1.0!left.jar
"""


def test_what_ivy_could_not_find_is_named_in_order() -> None:
    """Every jar of the summary is named once."""
    assert [str(each) for each in missing_in(NOT_FOUND)] == ["org.example:left:1.0", "org.example:right:2.0"]


def test_what_ivy_found_but_could_not_download_is_named() -> None:
    """A download that broke off is another line than one that was never found."""
    assert missing_in(FAILED) == (JarCoordinates("org.example", "left", "1.0"),)


def test_the_reason_is_the_networks_when_ivy_names_one() -> None:
    """A refused connection is not the same as a jar that does not exist."""
    assert reason_in(NOT_FOUND) == "java.net.ConnectException: Connection refused"
    assert reason_in(":: org.example#left;1.0: not found") == "not found"


def test_java_is_told_of_the_proxy_of_the_environment() -> None:
    """Java does not read these variables by itself."""
    options = proxy_options({"https_proxy": "http://proxy.example:3128", "NO_PROXY": "localhost, .example.org"})
    assert options == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.example.org",
    ]


def test_without_a_proxy_java_is_told_nothing() -> None:
    """An exception list alone does not make a proxy."""
    assert proxy_options({"no_proxy": "localhost"}) == []
