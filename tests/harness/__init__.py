"""What the black-box tests share: a server process, a raw connection, polls with a deadline, memory figures.
"""
