"""`surescale doctor`: checks a pipeline from one place and says what to do about whatever is wrong.

findings               what a check found, and how checks are run so that none stops the others
kafka_checks           broker, topics and their settings, consumer groups, how long ago each role wrote
prometheus_checks      Prometheus as a source: does it answer, and does each expression give what its figure needs
group_checks           consumer groups as jobs: are they there, and do their topics answer
compose_checks         services of Docker Compose that are to be scaled: do they run, and can they be more than one
scaled_objects         what is asked of every object of Kubernetes that is to be scaled
kubernetes_checks      workloads that are to be scaled: rights, are they there, and does anybody else scale them
flink_operator_checks  resources of the Flink operator that are to be scaled: the same
checks                 settings, Python, Java, Redis, the engine, the policy, clocks
command                the command line
"""
