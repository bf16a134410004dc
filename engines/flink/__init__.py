"""The REST API of Apache Flink, versions 1.20 to 2.3.

client          asks: kept connections, deadlines, one error class per kind of answer
errors          those classes, and how an answer becomes one of them
answers         the parts of the answers that are used
graph           a job's details as tasks: inputs, tied tasks, slot sharing, limits
identity        which job it is: its name, its epoch, its attempt
requirements    what Flink is asked for: read, merge, check, compare
"""
