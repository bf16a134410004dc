"""`surescale doctor`: checks a pipeline from one place and says what to do about whatever is wrong.

kafka_checks  broker, topics and their settings, consumer groups, how long ago each role wrote
checks        settings, Python, Java, Redis, the policy, clocks, and what the engines' folders add (their `doctor`)
command       the command line
"""
