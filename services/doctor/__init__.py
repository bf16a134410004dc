"""`surescale doctor`: checks a pipeline from one place and says what to do about whatever is wrong.

findings           what a check found, and how checks are run so that none stops the others
kafka_checks       broker, topics and their settings, consumer groups, how long ago each role wrote
kubernetes_checks  workloads that are to be scaled: are they there, and does anybody else scale them
checks             settings, Python, Java, Redis, the engine, the policy, clocks
command            the command line
"""
